"""Runs a program that is given a listening socket, as systemd gives it.

    with_socket.py ADDRESS:PORT PROGRAM ARGUMENT...
"""

import os
import socket
import sys

address, _, port = sys.argv[1].rpartition(":")
listening = socket.create_server((address, int(port)), backlog=socket.SOMAXCONN)
os.dup2(listening.fileno(), 3)
os.set_inheritable(3, True)  # which dup2 leaves to us where it is the third already
os.environ.update(LISTEN_FDS="1", LISTEN_PID=str(os.getpid()))
os.execvp(sys.argv[2], sys.argv[2:])
