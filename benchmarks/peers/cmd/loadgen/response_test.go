package main

import (
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"tributary.dev/benchmarks/peers/internal/catalogue"
)

var naming = catalogue.Naming{Authority: "bench"}

// The envelope that the generator reads by hand is the one that the protos define.
func TestWalkDeltaReadsWhatTheProtosWrite(t *testing.T) {
	name := naming.Name(7)
	body, err := anypb.New(catalogue.Body(name, catalogue.Marker(1234, 99, 'B')))
	if err != nil {
		t.Fatal(err)
	}
	message, err := proto.Marshal(&discoveryv3.DeltaDiscoveryResponse{
		SystemVersionInfo: "s",
		TypeUrl:           catalogue.TypeURL,
		Nonce:             "n1",
		Resources:         []*discoveryv3.Resource{{Name: name, Version: "v", Resource: body}},
		RemovedResources:  []string{naming.Name(8)},
	})
	if err != nil {
		t.Fatal(err)
	}
	var found []entry
	var removed []string
	got, err := walkDelta(message,
		func(e entry) { found = append(found, e) },
		func(name []byte) { removed = append(removed, string(name)) })
	if err != nil || string(got.nonce) != "n1" {
		t.Fatalf("nonce %q, %v", got.nonce, err)
	}
	if len(removed) != 1 || removed[0] != naming.Name(8) {
		t.Fatalf("removed %q", removed)
	}
	if len(found) != 1 {
		t.Fatalf("%d resources", len(found))
	}
	checkEntry(t, found[0], name, "v")
}

// The same for state of the world, where only the body names the resource.
func TestWalkSotwReadsWhatTheProtosWrite(t *testing.T) {
	name := naming.Name(7)
	body, err := anypb.New(catalogue.Body(name, catalogue.Marker(1234, 99, 'B')))
	if err != nil {
		t.Fatal(err)
	}
	message, err := proto.Marshal(&discoveryv3.DiscoveryResponse{
		VersionInfo: "v1",
		TypeUrl:     catalogue.TypeURL,
		Nonce:       "n1",
		Resources:   []*anypb.Any{body},
	})
	if err != nil {
		t.Fatal(err)
	}
	var found []entry
	got, err := walkSotw(message, func(e entry) { found = append(found, e) })
	if err != nil || string(got.nonce) != "n1" || string(got.version) != "v1" {
		t.Fatalf("nonce %q, version %q, %v", got.nonce, got.version, err)
	}
	if len(found) != 1 {
		t.Fatalf("%d resources", len(found))
	}
	checkEntry(t, found[0], name, "")
}

func checkEntry(t *testing.T, got entry, name, version string) {
	t.Helper()
	if string(got.name) != name || string(got.version) != version ||
		got.made != 1234 || got.sequence != 99 || got.origin != 'B' {
		t.Fatalf("read %+v", got)
	}
	if index, ok := nameIndex(got.name); !ok || index != 7 {
		t.Fatalf("index %d, %v", index, ok)
	}
}

// Bodies that claim more than they hold end in an error, not in a panic.
func TestWalkDeltaRefusesCutMessages(t *testing.T) {
	name := naming.Name(7)
	body, _ := anypb.New(catalogue.Body(name, catalogue.Marker(1, 1, 'A')))
	message, _ := proto.Marshal(&discoveryv3.DeltaDiscoveryResponse{
		Resources: []*discoveryv3.Resource{{Name: name, Resource: body}},
	})
	for length := 1; length < len(message); length++ {
		if _, err := walkDelta(message[:length], func(entry) {}, func([]byte) {}); err == nil {
			t.Fatalf("%d of %d bytes were taken", length, len(message))
		}
	}
}
