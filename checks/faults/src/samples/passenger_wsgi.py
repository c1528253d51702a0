import os, signal, socket, subprocess, threading, time

HERE = os.path.dirname(os.path.abspath(__file__))

def add(name, data):
    with open(os.path.join(HERE, name), 'ab') as file:
        file.write(data)

def read_late(stream):
    try:
        while True:
            data = stream.read(1000)
            if not data: return
            if data.strip(b'a'): add('foreign', data.strip(b'a'))
    except Exception:
        pass

def application(environ, start_response):
    path = environ['PATH_INFO']
    def answer(body):
        start_response('200 OK', [('Content-Type', 'text/plain'), ('Content-Length', str(len(body)))])
        return [body]
    if path == '/pid':
        return answer(str(os.getpid()).encode())
    if path == '/time':
        return answer(str(int(time.time())).encode())
    if path.startswith('/sleep/'):
        time.sleep(float(path[7:]))
    if path.startswith('/big/'):
        return answer(b'x' * int(path[5:]))
    if path == '/hang':
        while True: pass
    if path == '/die':
        os.kill(os.getpid(), signal.SIGKILL)
    if path == '/half':
        def half():
            yield b'x' * 500
            os.kill(os.getpid(), signal.SIGKILL)
        start_response('200 OK', [('Content-Length', '1000')])
        return half()
    if path == '/shut':
        socket.socket(fileno=os.dup(1)).shutdown(socket.SHUT_RDWR)
    if path == '/print':
        os.write(1, b'\n!> Ready\n!> socket: main;unix:/etc/x;session;1\n!> \n' + os.urandom(3000))
    if path == '/child':
        subprocess.Popen(['sleep', '300'])
        return answer(str(os.getpid()).encode())
    if path == '/bomb':
        children = 0
        try:
            # The bound is for a machine where the limit does not hold.
            while children < 500:
                if not os.fork():
                    time.sleep(300)
                    os._exit(0)
                children += 1
        except OSError:
            pass
        return answer(b'%d %d' % (os.getpid(), children))
    if path == '/memory':
        import resource
        before = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (1 << 30, before[1]))
        try:
            bytearray(2 << 30)
        finally:
            resource.setrlimit(resource.RLIMIT_AS, before)
    if path == '/daemon':
        # A careless daemon closes no descriptor.
        daemon = os.fork()
        if not daemon:
            os.setsid()
            time.sleep(300)
            os._exit(0)
        while os.getsid(daemon) != daemon: time.sleep(0.01)
        add('daemons', b'%d\n' % daemon)
        os.kill(os.getpid(), signal.SIGKILL)
    if path == '/fork':
        def forking():
            is_child = not os.fork()
            if is_child: time.sleep(0.1)
            yield b'child!' if is_child else b'parent'
        start_response('200 OK', [('Content-Length', '6')])
        return forking()
    if path == '/fork-call':
        if not os.fork():
            time.sleep(0.1)
            return answer(b'child!')
        return answer(b'parent')
    if path == '/late':
        threading.Thread(target=read_late, args=(environ['wsgi.input'],), daemon=True).start()
        return answer(b'ok')
    if path == '/length':
        size, rest = 0, int(environ.get('CONTENT_LENGTH') or 0)
        while rest > 0:
            piece = environ['wsgi.input'].read(min(rest, 65536))
            if not piece: break
            size += len(piece)
            rest -= len(piece)
        return answer(str(size).encode())
    return answer(b'ok')
