// control-plane is the control plane that the interop tests run against: go-control-plane's own
// server over ADS and one service per type (delta and SotW) and over REST, or, with -like, a look-alike
// of a control plane that cannot run here. A small HTTP control API sets content and behaviour.
//
//	PUT    /resources                    [{name, typeUrl?, json | anyBase64}]: the complete new content
//	PATCH  /resources                    the same list: added or replaced, in one change for each type
//	DELETE /resources?typeUrl=…&name=…   removed
//	PUT    /snapshots?node=…             with -by-node, and over REST: the same list, the complete content of a node id
//	GET    /streams                      counts and names of requests, ACKs, NACKs and responses
//	GET    /loads                        load reports of clients (-like traffic-director)
//	POST   /behaviour                    {mode, endStreams?}
//	PUT    /loads                        {intervalMs, clusters?, byEndpoint?}: turns on load reports (LRS)
//	GET    /loads                        the sums of all load reports, by cluster
//
// With -like, the parameter scope of the first three selects the clients that get the resources: all
// of a namespace (istio), a node id (consul), a network (traffic-director), everyone (contour, no scope).
//
// `json` is the protobuf JSON of a google.protobuf.Any ("@type" first); `anyBase64` is a serialized
// google.protobuf.Any, passed on unchanged. Versions are the library's content hashes.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	loadstats "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/server/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/emptypb"

	// The types that `json` may name.
	_ "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/header_mutation/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/on_demand/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/service/runtime/v3"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "control-plane:", err)
		os.Exit(1)
	}
}

func run() error {
	xdsPort := flag.Int("xds-port", 0, "port of the ADS server on 127.0.0.1; 0 picks one")
	controlPort := flag.Int("control-port", 0, "port of the HTTP control API on 127.0.0.1; 0 picks one")
	restPort := flag.Int("rest-port", 0, "port of the REST server on 127.0.0.1; 0 picks one")
	certFile := flag.String("cert", "", "server certificate (PEM); turns on TLS of the ADS server")
	keyFile := flag.String("key", "", "key of the server certificate (PEM)")
	clientCA := flag.String("client-ca", "", "CA (PEM) that must have issued client certificates")
	byNode := flag.Bool("by-node", false, "serve only the snapshots of node ids")
	perType := flag.Bool("per-type", false, "with -by-node: for clients with a stream per type or REST, not ADS")
	like := flag.String("like", "", "behave like this control plane: "+strings.Join(mapKeys(lookAlikes), ", "))
	flag.Parse()

	security, err := serverSecurity(*certFile, *keyFile, *clientCA)
	if err != nil {
		return err
	}
	xds, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", *xdsPort))
	if err != nil {
		return err
	}
	control, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", *controlPort))
	if err != nil {
		return err
	}

	rest, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", *restPort))
	if err != nil {
		return err
	}

	failed := make(chan error, 3)
	observed := &streams{mode: modeNormal}
	grpcServer := newGRPCServer(observed, security)
	mux := http.NewServeMux()
	observed.control(mux)
	if *like == "" {
		state := &controlPlane{caches: newTypeCaches(), snapshots: newNodeSnapshots(!*perType), loads: newLoads()}
		state.control(mux)
		server := state.server(*byNode)
		serveAllTypes(grpcServer, server)
		loadstats.RegisterLoadReportingServiceServer(grpcServer, state.loads)
		go func() { failed <- http.Serve(rest, observed.rest(server)) }()
	} else {
		serve := lookAlikes[*like]
		if serve == nil {
			return fmt.Errorf("unknown look-alike %q", *like)
		}
		state := newContent()
		state.control(mux)
		serve(grpcServer, mux, state)
	}
	go func() { failed <- grpcServer.Serve(xds) }()
	go func() { failed <- http.Serve(control, mux) }()
	// The parent holds our stdin: the end of stdin is the end of the parent, even after SIGKILL.
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		failed <- nil
	}()

	ready := map[string]int{
		"xdsPort":     xds.Addr().(*net.TCPAddr).Port,
		"controlPort": control.Addr().(*net.TCPAddr).Port,
		"restPort":    rest.Addr().(*net.TCPAddr).Port,
	}
	if err := json.NewEncoder(os.Stdout).Encode(ready); err != nil {
		return err
	}
	return <-failed
}

func serverSecurity(certFile, keyFile, clientCA string) (grpc.ServerOption, error) {
	if certFile == "" {
		return grpc.EmptyServerOption{}, nil
	}
	certificate, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	if clientCA != "" {
		pem, err := os.ReadFile(clientCA)
		if err != nil {
			return nil, err
		}
		config.ClientCAs = x509.NewCertPool()
		if !config.ClientCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s holds no certificate", clientCA)
		}
		config.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return grpc.Creds(credentials.NewTLS(config)), nil
}

func newGRPCServer(observed *streams, security grpc.ServerOption) *grpc.Server {
	return grpc.NewServer(
		security,
		grpc.StreamInterceptor(observed.intercept),
		// By default grpc-go closes connections of clients that ping more often than every 5
		// minutes. Real control planes set a policy, for their proxies' keepalives.
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 100 * time.Millisecond, PermitWithoutStream: true}),
	)
}

// controlPlane is go-control-plane with its content.
type controlPlane struct {
	caches    *typeCaches
	snapshots *nodeSnapshots
	loads     *loads
}

func (c *controlPlane) server(byNode bool) server.Server {
	if byNode {
		return server.NewServer(context.Background(), c.snapshots, nil)
	}
	return server.NewServer(context.Background(), c.caches, nil)
}

func (c *controlPlane) control(mux *http.ServeMux) {
	mux.HandleFunc("PUT /resources", answering(c.putResources))
	mux.HandleFunc("PATCH /resources", answering(c.patchResources))
	mux.HandleFunc("DELETE /resources", answering(c.deleteResource))
	mux.HandleFunc("PUT /snapshots", answering(c.putSnapshot))
	mux.HandleFunc("PUT /loads", answering(c.putLoads))
	mux.HandleFunc("GET /loads", answering(c.getLoads))
}

// answering turns a function into a handler: its value as JSON, or a 400 with its error text.
func answering(handle func(*http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := handle(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("content-type", "application/json")
		_ = json.NewEncoder(w).Encode(body)
	}
}

type resourceInput struct {
	Name      string          `json:"name"`
	TypeURL   string          `json:"typeUrl"`
	JSON      json.RawMessage `json:"json"`
	AnyBase64 string          `json:"anyBase64"`
}

// decode returns the type and the message to serve.
func (r resourceInput) decode() (string, types.Resource, error) {
	wrapped := &anypb.Any{}
	var resource types.Resource
	switch {
	case r.Name == "":
		return "", nil, errors.New("a resource without a name")
	case r.JSON != nil:
		if err := protojson.Unmarshal(r.JSON, wrapped); err != nil {
			return "", nil, fmt.Errorf("%s: %w", r.Name, err)
		}
		message, err := wrapped.UnmarshalNew()
		if err != nil {
			return "", nil, fmt.Errorf("%s: %w", r.Name, err)
		}
		resource = message
	default:
		bytes, err := base64.StdEncoding.DecodeString(r.AnyBase64)
		if err == nil {
			err = proto.Unmarshal(bytes, wrapped)
		}
		// A message of a type without fields preserves all bytes, as unknown fields.
		opaque := &emptypb.Empty{}
		if err == nil {
			err = proto.Unmarshal(wrapped.GetValue(), opaque)
		}
		if err != nil {
			return "", nil, fmt.Errorf("%s: %w", r.Name, err)
		}
		resource = opaque
	}
	if r.TypeURL != "" && r.TypeURL != wrapped.GetTypeUrl() {
		return "", nil, fmt.Errorf("%s: typeUrl is %q but the content is a %q", r.Name, r.TypeURL, wrapped.GetTypeUrl())
	}
	return wrapped.GetTypeUrl(), resource, nil
}

func decodeAll(body io.Reader) (map[string]map[string]types.Resource, error) {
	var inputs []resourceInput
	if err := json.NewDecoder(body).Decode(&inputs); err != nil {
		return nil, err
	}
	byType := make(map[string]map[string]types.Resource)
	for _, input := range inputs {
		typeURL, resource, err := input.decode()
		if err != nil {
			return nil, err
		}
		if byType[typeURL] == nil {
			byType[typeURL] = make(map[string]types.Resource)
		}
		byType[typeURL][input.Name] = resource
	}
	return byType, nil
}

// makeBeforeBreak is the order in which a change of several types is applied: a referenced type
// precedes the types that reference it. Any other type follows.
var makeBeforeBreak = []string{
	"type.googleapis.com/envoy.config.cluster.v3.Cluster",
	"type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment",
	"type.googleapis.com/envoy.config.listener.v3.Listener",
	"type.googleapis.com/envoy.config.route.v3.RouteConfiguration",
}

func inOrder(typeURLs []string) []string {
	rank := func(typeURL string) int {
		if at := slices.Index(makeBeforeBreak, typeURL); at >= 0 {
			return at
		}
		return len(makeBeforeBreak)
	}
	slices.SortFunc(typeURLs, func(a, b string) int { return rank(a) - rank(b) })
	return typeURLs
}

func (c *controlPlane) putResources(r *http.Request) (any, error) {
	byType, err := decodeAll(r.Body)
	if err != nil {
		return nil, err
	}
	for typeURL := range byType {
		c.caches.of(typeURL)
	}
	for _, typeURL := range inOrder(c.caches.typeURLs()) {
		if err := c.caches.of(typeURL).replace(byType[typeURL]); err != nil {
			return nil, err
		}
	}
	return map[string]any{}, nil
}

func (c *controlPlane) patchResources(r *http.Request) (any, error) {
	byType, err := decodeAll(r.Body)
	if err != nil {
		return nil, err
	}
	for _, typeURL := range inOrder(mapKeys(byType)) {
		if err := c.caches.of(typeURL).update(byType[typeURL], nil); err != nil {
			return nil, err
		}
	}
	return map[string]any{}, nil
}

func (c *controlPlane) deleteResource(r *http.Request) (any, error) {
	query := r.URL.Query()
	return map[string]any{}, c.caches.of(query.Get("typeUrl")).update(nil, []string{query.Get("name")})
}
