package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"strconv"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"
)

// admitted is a client that a look-alike serves.
type admitted struct {
	scope string
	// tailor returns a resource as this client gets it.
	tailor func(*anypb.Any) (*anypb.Any, error)
}

func untailored(resource *anypb.Any) (*anypb.Any, error) { return resource, nil }

// sotwRules are the differences between look-alikes on a state-of-the-world stream.
type sotwRules struct {
	admit func(context.Context, *core.Node) (*admitted, error)
	// Each change of any content is pushed to everyone, also what has not changed.
	pushesUnchanged bool
}

type sotwWatch struct {
	names  map[string]struct{}
	all    bool
	nonce  string
	digest string
}

// sotwSession is one state-of-the-world stream. It sends changes without waiting for ACKs.
type sotwSession struct {
	content *content
	rules   sotwRules
	stream  sotwStream
	client  *admitted
	watches map[string]*sotwWatch
	nonces  int
}

func serveSotw(content *content, rules sotwRules, stream sotwStream) error {
	session := &sotwSession{content: content, rules: rules, stream: stream, watches: make(map[string]*sotwWatch)}
	return converse(content, stream.Recv, session.take, session.push)
}

func (s *sotwSession) take(request *discovery.DiscoveryRequest) error {
	if s.client == nil {
		client, err := admitFirst(s.stream.Context(), s.rules.admit, request.GetNode())
		if err != nil {
			return err
		}
		s.client = client
	}
	if request.GetErrorDetail() != nil {
		return nil
	}
	names, typeURL := setOf(request.GetResourceNames()), request.GetTypeUrl()
	watch := s.watches[typeURL]
	isStale := watch != nil && request.GetResponseNonce() != "" && request.GetResponseNonce() != watch.nonce
	if isStale {
		return nil
	}
	if watch == nil || request.GetResponseNonce() == "" {
		s.watches[typeURL] = &sotwWatch{names: names, all: len(names) == 0 && isWhole(typeURL)}
		return s.answer(typeURL, true)
	}
	hasNew := false
	for name := range names {
		if _, isKnown := watch.names[name]; !isKnown {
			hasNew = true
		}
	}
	isAck := maps.Equal(names, watch.names)
	watch.names = names
	if isAck || !hasNew {
		return nil
	}
	return s.answer(typeURL, true)
}

func (s *sotwSession) push() error {
	for _, typeURL := range inOrder(mapKeys(s.watches)) {
		if err := s.answer(typeURL, s.rules.pushesUnchanged); err != nil {
			return err
		}
	}
	return nil
}

// answer sends all subscribed resources of a type that exist. A client that subscribes only names
// that do not exist gets no response, except for types whose responses are whole.
func (s *sotwSession) answer(typeURL string, evenUnchanged bool) error {
	watch := s.watches[typeURL]
	resources, version := s.content.of(s.client.scope, typeURL)
	names := picked(resources, watch.names, watch.all)
	if len(names) == 0 && !isWhole(typeURL) {
		return nil
	}
	response := &discovery.DiscoveryResponse{TypeUrl: typeURL, VersionInfo: strconv.Itoa(version)}
	hash := sha256.New()
	for _, name := range names {
		resource, err := s.client.tailor(resources[name])
		if err != nil {
			return err
		}
		response.Resources = append(response.Resources, resource)
		fmt.Fprintf(hash, "%s %d ", name, len(resource.GetValue()))
		hash.Write(resource.GetValue())
	}
	digest := string(hash.Sum(nil))
	if !evenUnchanged && digest == watch.digest {
		return nil
	}
	s.nonces++
	watch.nonce, watch.digest = strconv.Itoa(s.nonces), digest
	response.Nonce = watch.nonce
	return s.stream.Send(response)
}

// admitFirst admits the client of a first request.
func admitFirst(ctx context.Context, admit func(context.Context, *core.Node) (*admitted, error), node *core.Node) (*admitted, error) {
	if node.GetId() == "" {
		return nil, status.Error(codes.InvalidArgument, "missing node information")
	}
	return admit(ctx, node)
}
