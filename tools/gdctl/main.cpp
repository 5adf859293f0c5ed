// gdctl: migrations, inserts, signals, transitions and questions from the command line.

#include "args.hpp"
#include "lines.hpp"

int main(int argc, char** argv) {
  using namespace gdctl;
  occupy_streams();
  // In the order of help.
  return run_command_line(
    argc, argv,
    {add_migrate, add_insert,  add_signal,   add_transition, add_show,
     add_why,     add_history, add_rewind,   add_fork,       add_prune,
     add_in_step, add_stats,   add_machines, add_graph,      add_nodes,
     add_queues,  add_list,    add_verbs,    add_inbox,      add_pause,
     add_resume,  add_jobs,    add_top,      add_check,      add_serve,
     add_wait,    add_tls,     add_secret,   add_pages});
}
