"""Measures ipykernel through jupyter_client: python -c SCRIPT roundtrip|start|output|interrupt.

And IRkernel: python -c SCRIPT r_roundtrip|r_start|r_output|r_memory.
"""

import json
import sys
import time

from jupyter_client.manager import start_new_kernel


def run(client, code, on_output=None):
    """Runs a cell and reads everything of it until the kernel is idle."""
    request = client.execute(code)
    reply = None
    while reply is None or reply["parent_header"].get("msg_id") != request:
        try:
            message = client.get_iopub_msg(timeout=120)
        except Exception:
            break
        if message["parent_header"].get("msg_id") != request:
            continue
        if message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
            break
    while True:
        reply = client.get_shell_msg(timeout=120)
        if reply["parent_header"].get("msg_id") == request:
            return reply


def roundtrip():
    manager, client = start_new_kernel()
    for _ in range(50):
        run(client, "1")
    took = []
    for _ in range(500):
        begun = time.perf_counter()
        run(client, "1")
        took.append(time.perf_counter() - begun)
    manager.shutdown_kernel(now=True)
    return sorted(took)


def start():
    took = []
    for _ in range(7):
        begun = time.perf_counter()
        manager, client = start_new_kernel()
        run(client, "1")
        took.append(time.perf_counter() - begun)
        manager.shutdown_kernel(now=True)
    return sorted(took)


def output():
    manager, client = start_new_kernel()
    run(client, "1")
    begun = time.perf_counter()
    run(client, "import sys; n = sys.stdout.write('x' * 10**8)")
    one = time.perf_counter() - begun
    begun = time.perf_counter()
    run(client, "for i in range(10**6): print('x' * 99)")
    many = time.perf_counter() - begun
    manager.shutdown_kernel(now=True)
    return [one, many]


def interrupt():
    manager, client = start_new_kernel()
    run(client, "import time")
    took = []
    for _ in range(20):
        # An interrupt that comes before the cell sleeps would be lost, so it says when it does.
        request = client.execute("print('asleep', flush=True); time.sleep(60)")
        while True:
            message = client.get_iopub_msg(timeout=60)
            if message["msg_type"] == "stream" and message["parent_header"].get("msg_id") == request:
                break
        begun = time.perf_counter()
        manager.interrupt_kernel()
        while True:
            reply = client.get_shell_msg(timeout=60)
            if reply["parent_header"].get("msg_id") == request:
                break
        took.append(time.perf_counter() - begun)
    manager.shutdown_kernel(now=True)
    return sorted(took)


def r_roundtrip():
    manager, client = start_new_kernel(kernel_name="ir")
    for _ in range(50):
        run(client, "1")
    took = []
    for _ in range(300):
        begun = time.perf_counter()
        run(client, "1")
        took.append(time.perf_counter() - begun)
    manager.shutdown_kernel(now=True)
    return sorted(took)


def r_start():
    took = []
    for _ in range(5):
        begun = time.perf_counter()
        manager, client = start_new_kernel(kernel_name="ir")
        run(client, "1")
        took.append(time.perf_counter() - begun)
        manager.shutdown_kernel(now=True)
    return sorted(took)


def r_output():
    took = []
    for code in sys.argv[2:]:
        manager, client = start_new_kernel(kernel_name="ir")
        run(client, "1")
        begun = time.perf_counter()
        run(client, code)
        took.append(time.perf_counter() - begun)
        manager.shutdown_kernel(now=True)
    return took


def r_memory():
    """Not seconds, but bytes: what an idle kernel holds after its first cell."""
    manager, client = start_new_kernel(kernel_name="ir")
    run(client, "1")
    with open(f"/proc/{manager.provisioner.process.pid}/status") as status:
        held = [int(line.split()[1]) * 1024 for line in status if line.startswith("VmRSS:")]
    manager.shutdown_kernel(now=True)
    return held


print(json.dumps({"seconds": globals()[sys.argv[1]]()}))
