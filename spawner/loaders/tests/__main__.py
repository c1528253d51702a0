"""Drive the Python, the Rack and the Node loader as the server does, and check their handshakes and answers.

    python3 spawner/loaders/tests                   all tests
    python3 spawner/loaders/tests -p test_node.py   those of one file
    python3 spawner/loaders/tests -k websocket      those with this in their name

Each test starts its own loader on a socketpair, with its own application. A loader takes a tenth of a second to start, so
a test sends several requests to one process. Tests never wait for a fixed time: reads have a deadline, and other changes
are polled for.
"""

import os
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))

if __name__ == "__main__":
    unittest.main(module=None, argv=[sys.argv[0], "discover", "-s", HERE, *sys.argv[1:]])
