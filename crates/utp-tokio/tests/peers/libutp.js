// libutp (npm utp-native) as a peer: sends so many bytes of a pattern, or receives to the end; prints the sha256 of what it sent or got.
// node libutp.js MODULES (listen|connect) PORT (send|receive) BYTES
const [modules, how, port, what, bytes] = process.argv.slice(2)
const utp = require(modules + '/utp-native')
const crypto = require('crypto')

// HOST: where it listens or connects, loopback by default.
const host = process.env.HOST || '127.0.0.1'
// NO_HASH: bytes and seconds instead, for who measures.
const measures = process.env.NO_HASH
let began = 0
function done (hash, text) {
  console.log(...(measures ? [text, (performance.now() - began) / 1000] : [hash.digest('hex'), text]))
  setTimeout(() => process.exit(0), measures ? 0 : 200)
}

function use (stream) {
  const hash = crypto.createHash('sha256')
  stream.on('error', e => { console.error(e.message); process.exit(1) })
  if (what === 'receive') {
    let got = 0
    stream.on('data', d => {
      if (got === 0) began = performance.now()
      if (!measures) hash.update(d)
      got += d.length
    })
    stream.on('end', () => { stream.end(); done(hash, got) })
    if (how === 'connect') stream.write('.') // an accepted libutp connection writes once it has been written to
    return
  }
  let left = Number(bytes)
  const pattern = crypto.createHash('sha512').update('lowtide').digest()
  const chunk = Buffer.alloc(1 << 16, pattern)
  function more () {
    while (left > 0) {
      const part = chunk.subarray(0, Math.min(left, chunk.length))
      left -= part.length
      if (!measures) hash.update(part)
      if (!stream.write(part)) return stream.once('drain', more)
    }
    stream.on('finish', () => {})
    stream.end()
    stream.on('close', () => done(hash, bytes))
    stream.resume()
  }
  if (how === 'listen') stream.once('data', more)
  else more()
}

if (how === 'listen') {
  const server = utp.createServer({ allowHalfOpen: true }, use)
  server.listen(Number(port), host, () => console.log('port', server.address().port))
} else {
  use(utp.connect(Number(port), host, { allowHalfOpen: true }))
}
