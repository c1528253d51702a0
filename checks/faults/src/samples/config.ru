class Forking
  def each
    is_child = !fork
    sleep 0.1 if is_child
    yield is_child ? 'child!' : 'parent'
  end
end

run lambda { |env|
  answer = lambda { |body| [200, { 'Content-Type' => 'text/plain', 'Content-Length' => body.bytesize.to_s }, [body]] }
  case env['PATH_INFO']
  when '/pid' then answer.($$.to_s)
  when %r{^/sleep/(.*)} then sleep($1.to_f); answer.('ok')
  when %r{^/big/(.*)} then answer.('x' * $1.to_i)
  when '/hang' then loop {}
  when '/fork' then [200, { 'content-length' => '6' }, Forking.new]
  when '/fork-call'
    next answer.('parent') if fork
    sleep 0.1
    answer.('child!')
  when '/late'
    input = env['rack.input']
    Thread.new do
      while (piece = input.read(1000))
        File.write(File.join(__dir__, 'foreign'), piece.delete('a'), mode: 'a') unless piece.delete('a').empty?
      end
    rescue StandardError
      nil
    end
    answer.('ok')
  when '/length'
    size = 0
    while (piece = env['rack.input'].read(65536)) do size += piece.bytesize end
    answer.(size.to_s)
  else answer.('ok')
  end
}
