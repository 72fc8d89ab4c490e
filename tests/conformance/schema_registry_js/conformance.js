// @kafkajs/confluent-schema-registry, unchanged, against the registry at argv[2]: one JSON line for each check.
const { SchemaRegistry, SchemaType, COMPATIBILITY } = require('@kafkajs/confluent-schema-registry')

const full = { compatibility: COMPATIBILITY.FULL }
const say = (check, found) => console.log(JSON.stringify({ check, ...found }))

async function main() {
  const registry = new SchemaRegistry({ host: process.argv[2] })
  const order = {
    type: 'record', name: 'Order', namespace: 'shop.js',
    fields: [{ name: 'id', type: 'long' }, { name: 'item', type: 'string' }],
  }
  const avro = await registry.register(order, { subject: 'js-avro', ...full })
  const encoded = await registry.encode(avro.id, { id: 7, item: 'book' })
  const decoded = await new SchemaRegistry({ host: process.argv[2] }).decode(encoded)
  say('avro', { prefix: encoded.readInt32BE(1) === avro.id, id: Number(decoded.id), item: decoded.item })
  const again = await registry.register(order, { subject: 'js-avro', ...full })
  say('again', { same: again.id === avro.id, latest: await registry.getLatestSchemaId('js-avro') === avro.id })
  const broken = { ...order, fields: [{ name: 'id', type: 'string' }] }
  const refused = await registry.register(broken, { subject: 'js-avro', ...full }).catch((error) => error)
  say('refused', { status: refused.status, said: /cannot read/.test(refused.message) })

  const json = { type: SchemaType.JSON, schema: JSON.stringify({ type: 'object', properties: { id: { type: 'integer' } } }) }
  const { id: jsonId } = await registry.register(json, { subject: 'js-json' })
  say('json', await registry.decode(await registry.encode(jsonId, { id: 7 })))

  const proto = { type: SchemaType.PROTOBUF, schema: 'syntax = "proto3"; package shop.js; message Order { int32 id = 1; }' }
  const { id: protoId } = await registry.register(proto, { subject: 'js-proto' })
  say('protobuf', { id: (await registry.decode(await registry.encode(protoId, { id: 7 }))).id })
}

main().catch((error) => { console.error(error); process.exit(1) })
