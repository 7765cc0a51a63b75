package main

import (
	"maps"
	"net/http"
	"slices"
	"sync"

	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// lookAlikes are the control planes that cannot run in a test. Each function registers the services
// of one, which serve `state`, and may add to the control API.
//
// They are written from the source code of the originals (istiod, Consul, Contour) or from its documentation
// (Traffic Director). Except for Contour, which uses go-control-plane itself, they share no protocol code with it.
var lookAlikes = map[string]func(to *grpc.Server, mux *http.ServeMux, state *content){
	"istio":            serveLikeIstio,
	"consul":           serveLikeConsul,
	"contour":          serveLikeContour,
	"traffic-director": serveLikeTrafficDirector,
}

const (
	clusterType    = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
	assignmentType = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"
	listenerType   = "type.googleapis.com/envoy.config.listener.v3.Listener"
	routeType      = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration"
	secretType     = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret"
)

// isWhole reports whether a state-of-the-world response lists all resources of the type.
func isWhole(typeURL string) bool { return typeURL == clusterType || typeURL == listenerType }

// content holds the resources of a look-alike by scope, type URL and name.
type content struct {
	mu      sync.Mutex
	scopes  map[string]map[string]map[string]*anypb.Any
	version int
	// Closed, and replaced, with each change.
	changed chan struct{}
}

func newContent() *content {
	return &content{scopes: make(map[string]map[string]map[string]*anypb.Any), changed: make(chan struct{})}
}

// of returns the resources of one type, and the number of changes of any content so far.
func (c *content) of(scope, typeURL string) (map[string]*anypb.Any, int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.scopes[scope][typeURL]), c.version
}

func (c *content) isKnown(scope string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.scopes[scope] != nil
}

// next returns a channel that is closed with the next change.
func (c *content) next() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changed
}

// change applies `apply` to the types of one scope, as one change.
func (c *content) change(scope string, apply func(byType map[string]map[string]*anypb.Any)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.scopes[scope] == nil {
		c.scopes[scope] = make(map[string]map[string]*anypb.Any)
	}
	apply(c.scopes[scope])
	c.version++
	close(c.changed)
	c.changed = make(chan struct{})
}

func (c *content) control(mux *http.ServeMux) {
	mux.HandleFunc("PUT /resources", answering(func(r *http.Request) (any, error) {
		return c.put(r, func(byType map[string]map[string]*anypb.Any) { clear(byType) })
	}))
	mux.HandleFunc("PATCH /resources", answering(func(r *http.Request) (any, error) {
		return c.put(r, func(map[string]map[string]*anypb.Any) {})
	}))
	mux.HandleFunc("DELETE /resources", answering(func(r *http.Request) (any, error) {
		query := r.URL.Query()
		c.change(query.Get("scope"), func(byType map[string]map[string]*anypb.Any) {
			delete(byType[query.Get("typeUrl")], query.Get("name"))
		})
		return map[string]any{}, nil
	}))
}

// put adds the resources of a request, after `before`.
func (c *content) put(r *http.Request, before func(map[string]map[string]*anypb.Any)) (any, error) {
	given, err := decodeAll(r.Body)
	if err != nil {
		return nil, err
	}
	encoded, err := encodeAll(given)
	if err != nil {
		return nil, err
	}
	c.change(r.URL.Query().Get("scope"), func(byType map[string]map[string]*anypb.Any) {
		before(byType)
		for typeURL, named := range encoded {
			if byType[typeURL] == nil {
				byType[typeURL] = make(map[string]*anypb.Any)
			}
			maps.Copy(byType[typeURL], named)
		}
	})
	return map[string]any{}, nil
}

func encodeAll(given map[string]map[string]types.Resource) (map[string]map[string]*anypb.Any, error) {
	encoded := make(map[string]map[string]*anypb.Any)
	for typeURL, named := range given {
		encoded[typeURL] = make(map[string]*anypb.Any)
		for name, resource := range named {
			value, err := proto.MarshalOptions{Deterministic: true}.Marshal(resource)
			if err != nil {
				return nil, err
			}
			encoded[typeURL][name] = &anypb.Any{TypeUrl: typeURL, Value: value}
		}
	}
	return encoded, nil
}

// converse calls `take` with each request of a stream and `push` after each change of the content,
// one call at a time, until the stream ends or a call fails.
func converse[Request any](c *content, receive func() (Request, error), take func(Request) error, push func() error) error {
	requests, failed, done := make(chan Request), make(chan error, 1), make(chan struct{})
	defer close(done)
	go func() {
		for {
			request, err := receive()
			if err != nil {
				failed <- err
				return
			}
			select {
			case requests <- request:
			case <-done:
				return
			}
		}
	}()
	// Taken before the content is read: a change during `take` or `push` is not missed.
	changed := c.next()
	for {
		var err error
		select {
		case request := <-requests:
			err = take(request)
		case <-changed:
			changed = c.next()
			err = push()
		case err = <-failed:
		}
		if err != nil {
			return err
		}
	}
}

// picked returns the resources with these names, in the order of their names; with all, every one.
func picked(resources map[string]*anypb.Any, names map[string]struct{}, all bool) []string {
	found := make([]string, 0, len(resources))
	for name := range resources {
		if _, isAsked := names[name]; all || isAsked {
			found = append(found, name)
		}
	}
	slices.Sort(found)
	return found
}

func setOf(names []string) map[string]struct{} {
	set := make(map[string]struct{}, len(names))
	for _, name := range names {
		set[name] = struct{}{}
	}
	return set
}
