import os


async def app(scope, receive, send):
    if scope['type'] == 'lifespan':
        while True:
            event = await receive()
            await send({'type': event['type'] + '.complete'})
            if event['type'] == 'lifespan.shutdown':
                return
    if scope['type'] == 'websocket':
        await receive()
        await send({'type': 'websocket.accept'})
        while (await receive())['type'] != 'websocket.disconnect':
            pass
        return
    body = str(os.getpid()).encode() if scope['path'] == '/pid' else b'ok'
    await send({'type': 'http.response.start', 'status': 200,
                'headers': [(b'content-length', str(len(body)).encode())]})
    await send({'type': 'http.response.body', 'body': body})
