// confluent-kafka-go's schema registry client and Avro serializer, unchanged, against the registry at os.Args[1]: one
// JSON line for each check.
package main

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/confluentinc/confluent-kafka-go/v2/schemaregistry"
	"github.com/confluentinc/confluent-kafka-go/v2/schemaregistry/rest"
	"github.com/confluentinc/confluent-kafka-go/v2/schemaregistry/serde"
	"github.com/confluentinc/confluent-kafka-go/v2/schemaregistry/serde/avrov2"
	"github.com/confluentinc/confluent-kafka-go/v2/schemaregistry/serde/jsonschema"
)

type order struct {
	ID   int64  `avro:"id" json:"id"`
	Item string `avro:"item" json:"item"`
}

func say(check string, found map[string]any) {
	found["check"] = check
	line, _ := json.Marshal(found)
	fmt.Println(string(line))
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func connect() schemaregistry.Client {
	client, err := schemaregistry.NewClient(schemaregistry.NewConfig(os.Args[1]))
	must(err)
	return client
}

func codeOf(err error) int {
	var refused *rest.Error
	if errors.As(err, &refused) {
		return refused.Code
	}
	return 0
}

func main() {
	client := connect()
	text := `{"type":"record","name":"order","fields":[{"name":"id","type":"long"},{"name":"item","type":"string"}]}`
	avro := schemaregistry.SchemaInfo{Schema: text}
	made, err := client.RegisterFullResponse("cgo-value", avro, false)
	must(err)
	found, err := connect().GetBySubjectAndID("cgo-value", made.ID)
	must(err)
	byGUID, err := connect().GetByGUID(made.GUID)
	must(err)
	places, err := client.GetSubjectsAndVersionsByID(made.ID)
	must(err)
	say("register", map[string]any{
		"version": made.Version, "same": found.Schema == text, "guid": byGUID.Schema == text,
		"places": fmt.Sprint(places),
	})

	writes := avrov2.NewSerializerConfig()
	writes.AutoRegisterSchemas = false
	writes.UseLatestVersion = true
	writer, err := avrov2.NewSerializer(client, serde.ValueSerde, writes)
	must(err)
	data, err := writer.Serialize("cgo", &order{7, "book"})
	must(err)
	reader, err := avrov2.NewDeserializer(connect(), serde.ValueSerde, avrov2.NewDeserializerConfig())
	must(err)
	var read order
	must(reader.DeserializeInto("cgo", data, &read))
	prefix := data[0] == 0 && int(binary.BigEndian.Uint32(data[1:5])) == made.ID
	say("avro", map[string]any{"prefix": prefix, "id": read.ID, "item": read.Item})

	broken := schemaregistry.SchemaInfo{Schema: `"string"`}
	_, err = client.Register("cgo-value", broken, false)
	ok, checkErr := client.TestSubjectCompatibility("cgo-value", broken)
	must(checkErr)
	say("refused", map[string]any{"code": codeOf(err), "compatible": ok})

	jsonWriter, err := jsonschema.NewSerializer(client, serde.ValueSerde, jsonschema.NewSerializerConfig())
	must(err)
	document, err := jsonWriter.Serialize("cgo-json", &order{7, "book"})
	must(err)
	jsonReader, err := jsonschema.NewDeserializer(connect(), serde.ValueSerde, jsonschema.NewDeserializerConfig())
	must(err)
	var fromJSON order
	must(jsonReader.DeserializeInto("cgo-json", document, &fromJSON))
	say("json", map[string]any{"id": fromJSON.ID, "item": fromJSON.Item})

	level, err := client.UpdateCompatibility("cgo-value", schemaregistry.FullTransitive)
	must(err)
	config, err := client.GetConfig("cgo-value", false)
	must(err)
	say("level", map[string]any{"level": level.String(), "config": config.CompatibilityLevel.String()})

	one, err := client.DeleteSubjectVersion("cgo-value", 1, false)
	must(err)
	gone, err := client.DeleteSubject("cgo-value", true)
	must(err)
	_, err = connect().GetLatestSchemaMetadata("cgo-value")
	say("delete", map[string]any{"version": one, "hard": gone, "code": codeOf(err)})
}
