-- Forgets nodes that have gone without a word: after a day, and of each host all but the last 20.
delete from :"schema".gen_durable_nodes n
where n.seen_at + n.lease < clock_timestamp()
  and (n.seen_at < clock_timestamp() - interval '1 day'
       or n.incarnation in (
         select x.incarnation
         from (
           select m.incarnation, row_number() over (partition by m.host order by m.seen_at desc) as nth
           from :"schema".gen_durable_nodes m) x
         where x.nth > 20))
