# A careless HTTP server: it sends the body of an answer to HEAD, too, and later than the head.
import os
import socket
import threading
import time

listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(('127.0.0.1', int(os.environ['PORT'])))
listener.listen(100)


def serve(connection):
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    data = b''
    try:
        while True:
            while b'\r\n\r\n' not in data:
                part = connection.recv(65536)
                if not part:
                    return
                data += part
            head, data = data.split(b'\r\n\r\n', 1)
            body = b'ok'
            if head.split(b' ')[1] == b'/evil':
                body = b'HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nPOISONED'
            connection.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n' % len(body))
            if head.startswith(b'HEAD'):
                time.sleep(0.0002)
            connection.sendall(body)
    except OSError:
        pass
    finally:
        connection.close()


while True:
    accepted, _ = listener.accept()
    threading.Thread(target=serve, args=(accepted,), daemon=True).start()
