// franz-go's schema registry client, unchanged, against the registry at os.Args[1]: one JSON line for each check.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/twmb/franz-go/pkg/sr"
)

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

func main() {
	ctx := context.Background()
	client, err := sr.NewClient(sr.URLs(os.Args[1]))
	must(err)
	first := sr.Schema{Schema: `{"type":"record","name":"Order","namespace":"shop.golang","fields":[{"name":"id","type":"long"}]}`}
	made, err := client.CreateSchema(ctx, "go-avro", first)
	must(err)
	found, err := client.SchemaByID(ctx, made.ID)
	must(err)
	say("register", map[string]any{"version": made.Version, "same": found.Schema == first.Schema})
	looked, err := client.LookupSchema(ctx, "go-avro", first)
	must(err)
	checked, err := client.CheckCompatibility(sr.WithParams(ctx, sr.Verbose), "go-avro", -1, sr.Schema{Schema: `"string"`})
	must(err)
	say("check", map[string]any{"version": looked.Version, "compatible": checked.Is, "messages": len(checked.Messages) > 0})
	_, err = client.CreateSchema(ctx, "go-avro", sr.Schema{Schema: `"string"`})
	var refused *sr.ResponseError
	say("refused", map[string]any{"is": errors.As(err, &refused), "code": refused.ErrorCode, "status": refused.StatusCode})
	set := client.SetCompatibility(ctx, sr.SetCompatibility{Level: sr.CompatFull}, "go-avro")
	must(set[0].Err)
	got := client.Compatibility(ctx, "go-avro")
	must(got[0].Err)
	say("level", map[string]any{"level": got[0].Level.String()})
	modes := client.Mode(ctx)
	must(modes[0].Err)
	types, err := client.SupportedTypes(ctx)
	must(err)
	say("mode", map[string]any{"mode": modes[0].Mode.String(), "types": len(types)})
	deleted, err := client.DeleteSubject(ctx, "go-avro", sr.SoftDelete)
	must(err)
	gone, err := client.DeleteSubject(ctx, "go-avro", sr.HardDelete)
	must(err)
	say("delete", map[string]any{"soft": deleted, "hard": gone})
}
