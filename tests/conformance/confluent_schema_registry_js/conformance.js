// @confluentinc/schemaregistry, unchanged, against the registry at argv[2]: one JSON line for each check.
const {
  AvroDeserializer, AvroSerializer, JsonDeserializer, JsonSerializer, SchemaRegistryClient, SerdeType,
} = require('@confluentinc/schemaregistry')

const say = (check, found) => console.log(JSON.stringify({ check, ...found }))
const connect = () => new SchemaRegistryClient({ baseURLs: [process.argv[2]] })
const latest = { useLatestVersion: true }

async function main() {
  const client = connect()
  const order = {
    type: 'record', name: 'Order', namespace: 'shop.confluent',
    fields: [{ name: 'id', type: 'int' }, { name: 'item', type: 'string' }],
  }
  const avro = { schemaType: 'AVRO', schema: JSON.stringify(order) }
  const id = await client.register('confluent-avro-value', avro)
  const encoded = await new AvroSerializer(client, SerdeType.VALUE, latest).serialize('confluent-avro', { id: 7, item: 'book' })
  const decoded = await new AvroDeserializer(connect(), SerdeType.VALUE, {}).deserialize('confluent-avro', encoded)
  say('avro', { prefix: encoded[0] === 0 && encoded.readInt32BE(1) === id, id: decoded.id, item: decoded.item })
  const found = await connect().getLatestSchemaMetadata('confluent-avro-value')
  say('latest', { id: found.id === id, version: found.version, same: found.schema === avro.schema })

  const broken = { ...avro, schema: JSON.stringify({ ...order, fields: [{ name: 'id', type: 'string' }] }) }
  const refused = await client.register('confluent-avro-value', broken).catch((error) => error)
  say('refused', { status: refused.status, code: refused.errorCode, said: /cannot read/.test(refused.message) })
  say('check', {
    broken: await client.testSubjectCompatibility('confluent-avro-value', broken),
    same: await client.testSubjectCompatibility('confluent-avro-value', avro),
  })

  const json = { type: 'object', properties: { id: { type: 'integer' } }, required: ['id'] }
  await client.register('confluent-json-value', { schemaType: 'JSON', schema: JSON.stringify(json) })
  const serializer = new JsonSerializer(client, SerdeType.VALUE, { ...latest, validate: true })
  const text = await serializer.serialize('confluent-json', { id: 7 })
  say('json', await new JsonDeserializer(connect(), SerdeType.VALUE, {}).deserialize('confluent-json', text))
  const invalid = await serializer.serialize('confluent-json', { id: 'seven' }).catch((error) => error)
  say('invalid', { refused: invalid instanceof Error })
  say('delete', {
    soft: await client.deleteSubject('confluent-json-value'),
    hard: await client.deleteSubject('confluent-json-value', true),
  })
}

main().then(() => process.exit(0), (error) => { console.error(error); process.exit(1) })
