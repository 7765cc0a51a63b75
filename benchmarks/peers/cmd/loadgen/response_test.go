package main

import (
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"tributary.dev/benchmarks/peers/internal/catalogue"
)

// The envelope that the generator reads by hand is the one that the protos define.
func TestWalkResponseReadsWhatTheProtosWrite(t *testing.T) {
	name := catalogue.Name("bench", 7)
	body, err := anypb.New(catalogue.Body(name, catalogue.Marker(1234, 99, 'B')))
	if err != nil {
		t.Fatal(err)
	}
	message, err := proto.Marshal(&discoveryv3.DeltaDiscoveryResponse{
		SystemVersionInfo: "s",
		TypeUrl:           catalogue.TypeURL,
		Nonce:             "n1",
		Resources:         []*discoveryv3.Resource{{Name: name, Version: "v", Resource: body}},
		RemovedResources:  []string{catalogue.Name("bench", 8)},
	})
	if err != nil {
		t.Fatal(err)
	}
	var found []entry
	var removed []string
	nonce, err := walkResponse(message,
		func(e entry) { found = append(found, e) },
		func(name []byte) { removed = append(removed, string(name)) })
	if err != nil || string(nonce) != "n1" {
		t.Fatalf("nonce %q, %v", nonce, err)
	}
	if len(removed) != 1 || removed[0] != catalogue.Name("bench", 8) {
		t.Fatalf("removed %q", removed)
	}
	if len(found) != 1 {
		t.Fatalf("%d resources", len(found))
	}
	got := found[0]
	if string(got.name) != name || string(got.version) != "v" ||
		got.made != 1234 || got.sequence != 99 || got.origin != 'B' {
		t.Fatalf("read %+v", got)
	}
	if index, ok := nameIndex(got.name); !ok || index != 7 {
		t.Fatalf("index %d, %v", index, ok)
	}
}

// Bodies that claim more than they hold end in an error, not in a panic.
func TestWalkResponseRefusesCutMessages(t *testing.T) {
	name := catalogue.Name("bench", 7)
	body, _ := anypb.New(catalogue.Body(name, catalogue.Marker(1, 1, 'A')))
	message, _ := proto.Marshal(&discoveryv3.DeltaDiscoveryResponse{
		Resources: []*discoveryv3.Resource{{Name: name, Resource: body}},
	})
	for length := 1; length < len(message); length++ {
		if _, err := walkResponse(message[:length], func(entry) {}, func([]byte) {}); err == nil {
			t.Fatalf("%d of %d bytes were taken", length, len(message))
		}
	}
}
