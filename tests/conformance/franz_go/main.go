// franz-go against a broker: codecs, a KIP-848 and a classic group, transactions, administration. Prints one JSON object per check.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

func report(check string, fields map[string]any) {
	fields["check"] = check
	line, _ := json.Marshal(fields)
	fmt.Println(string(line))
}

func must[T any](value T, err error) T {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return value
}

// clientAt gives the options of a client: TLS and SCRAM-SHA-512 if the environment names an authority.
func clientAt(bootstrap string, more ...kgo.Opt) []kgo.Opt {
	options := append([]kgo.Opt{kgo.SeedBrokers(bootstrap)}, more...)
	if file := os.Getenv("TEST_CA"); file != "" {
		trusted := x509.NewCertPool()
		trusted.AppendCertsFromPEM(must(os.ReadFile(file)))
		login := scram.Auth{User: os.Getenv("TEST_USER"), Pass: os.Getenv("TEST_PASSWORD")}
		options = append(options, kgo.DialTLSConfig(&tls.Config{RootCAs: trusted}), kgo.SASL(login.AsSha512Mechanism()))
	}
	return options
}

func readAll(ctx context.Context, bootstrap, topic, group string, count int, options ...kgo.Opt) []*kgo.Record {
	options = append(clientAt(bootstrap, options...), kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit())
	client := must(kgo.NewClient(options...))
	defer client.Close()
	var records []*kgo.Record
	for len(records) < count {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			must(0, fmt.Errorf("%d of %d records of %s came: %w", len(records), count, topic, err))
		}
		records = append(records, fetches.Records()...)
	}
	must(0, client.CommitUncommittedOffsets(ctx))
	return records
}

func main() {
	bootstrap := os.Args[1]
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	plain := must(kgo.NewClient(clientAt(bootstrap)...))
	defer plain.Close()
	admin := kadm.NewClient(plain)
	must(admin.CreateTopics(ctx, 3, 1, nil, "go-records"))
	must(admin.CreateTopics(ctx, 1, 1, nil, "go-transactions"))
	again := must(admin.CreateTopics(ctx, 3, 1, nil, "go-records"))
	report("create", map[string]any{"again": again["go-records"].Err == kerr.TopicAlreadyExists})

	codecs := []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()}
	for at, codec := range codecs {
		producer := must(kgo.NewClient(clientAt(bootstrap, kgo.ProducerBatchCompression(codec))...))
		for n := 0; n < 40; n++ {
			producer.Produce(ctx, &kgo.Record{
				Topic: "go-records", Key: []byte(fmt.Sprint("k", n%7)), Value: []byte(fmt.Sprint(at, ":", n, ":", "padding padding padding")),
				Headers: []kgo.RecordHeader{{Key: "codec", Value: []byte(fmt.Sprint(at))}},
			}, func(_ *kgo.Record, err error) { must(0, err) })
		}
		must(0, producer.Flush(ctx))
		producer.Close()
	}
	classic := readAll(ctx, bootstrap, "go-records", "go-classic", 200)
	values := map[string]bool{}
	for _, record := range classic {
		values[string(record.Value)] = true
	}
	report("records", map[string]any{"count": len(classic), "values": len(values)})
	next := readAll(ctx, bootstrap, "go-records", "go-next", 200, kgo.ServerSideBalancer())
	groups := must(admin.ListGroups(ctx))
	described := must(admin.DescribeConsumerGroups(ctx, "go-next"))
	report("groups", map[string]any{"next": len(next), "classic": groups["go-classic"].Group, "epoch": described["go-next"].Epoch})
	lag := must(admin.Lag(ctx, "go-classic"))
	report("lag", map[string]any{"total": lag["go-classic"].Lag.Total()})

	transactional := must(kgo.NewClient(clientAt(bootstrap, kgo.TransactionalID("go-transactional"), kgo.DefaultProduceTopic("go-transactions"))...))
	for _, step := range []struct {
		value  string
		commit kgo.TransactionEndTry
	}{{"kept-1", kgo.TryCommit}, {"dropped", kgo.TryAbort}, {"kept-2", kgo.TryCommit}} {
		must(0, transactional.BeginTransaction())
		must(0, transactional.ProduceSync(ctx, &kgo.Record{Value: []byte(step.value)}).FirstErr())
		must(0, transactional.EndTransaction(ctx, step.commit))
	}
	transactional.Close()
	var seen []string
	for _, record := range readAll(ctx, bootstrap, "go-transactions", "go-reader", 2, kgo.FetchIsolationLevel(kgo.ReadCommitted())) {
		seen = append(seen, string(record.Value))
	}
	report("transactions", map[string]any{"values": seen})
	must(admin.DeleteRecords(ctx, kadm.Offsets{"go-records": {0: {Topic: "go-records", Partition: 0, At: 1}}}))
	starts := must(admin.ListStartOffsets(ctx, "go-records"))
	report("deleted", map[string]any{"start": starts["go-records"][0].Offset})
	must(admin.DeleteTopics(ctx, "go-records", "go-transactions"))
}
