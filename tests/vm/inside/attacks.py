# SPDX-License-Identifier: Apache-2.0
"""Programs that take all they can get. They go on holding it; what they got is in /tmp/full."""

THREADS = """
import threading, time
threading.stack_size(65536)
gate = threading.Event()
made = 0
while True:
    try:
        threading.Thread(target=gate.wait, daemon=True).start()
        made += 1
    except RuntimeError:
        open("/tmp/full", "w").write(str(made))
        time.sleep(0.1)
"""
FILES = """
import os, time
for _ in range(64):
    near, far = os.pipe()
    if os.fork() == 0:
        held = []
        try:
            while True:
                held.append(os.pipe())  # two files that take much room in the kernel
        except OSError:
            os.write(far, b"all")
        time.sleep(3600)
    os.close(far)
    os.read(near, 3)  # until it has all that one process may, or was ended
time.sleep(3600)
"""
NEIGHBOURS = """
import ipaddress, socket
gateway = int(ipaddress.ip_address(open("/etc/resolv.conf").read().split()[1]))
four = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
bound = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
bound.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"eth0")
six = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
link = socket.if_nametoindex("eth0")
for number in range(1, 2045):
    address = str(ipaddress.ip_address(gateway + number))
    for sender, flags, target in (
        (four, 0, (address, 9)),
        (bound, socket.MSG_DONTROUTE, (address, 9)),
        (six, 0, (f"fe80::{number:x}", 9, 0, link)),
    ):
        try:
            sender.sendto(b"x", flags, target)
        except OSError:
            pass
open("/tmp/full", "w").write("sent")
"""
UNBOUNDED_NEIGHBOURS = """
ip link add d0 type dummy
ip link set d0 arp on up
ip address add 10.99.0.1/16 dev d0
python3 -c '
import socket
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for number in range(2044):
    try:
        sender.sendto(b"x", (f"10.99.{1 + number // 250}.{1 + number % 250}", 9))
    except OSError:
        pass
'
"""
"""The same on an interface that asks for neighbours."""
CONNECTIONS = """
import itertools, socket, time
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for number in itertools.count():
    try:
        sender.sendto(b"x", ("PUBLIC", 1 + number % 65535))
    except OSError:
        pass
    if number % 64 == 0:
        time.sleep(0.25)
"""
MEMORY = """
import os, time
while True:
    if os.fork() == 0:
        held = []
        while True:
            held.append(b"1" * (16 << 20))
    os.wait()  # it was ended; the next takes all again
    time.sleep(10)
"""
