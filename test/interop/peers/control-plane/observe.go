package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/server/v3"
	"google.golang.org/protobuf/encoding/protojson"
)

const keptFetches = 200

// fetchRecord is one REST request and the status of its response.
type fetchRecord struct {
	Path    string   `json:"path"`
	NodeID  string   `json:"nodeId"`
	Version string   `json:"version"`
	Names   []string `json:"names"`
	Status  int      `json:"status"`
}

// control adds the part of the control API that all control planes share.
func (s *streams) control(mux *http.ServeMux) {
	mux.HandleFunc("GET /streams", answering(s.getStreams))
	mux.HandleFunc("POST /behaviour", answering(s.postBehaviour))
}

// rest is go-control-plane's REST server, with a record of its requests.
func (s *streams) rest(xds server.Server) http.Handler {
	gateway := server.HTTPGateway{Server: xds}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		answer, code, err := gateway.ServeHTTP(r)
		if err != nil {
			answer = []byte(err.Error())
		}
		request := &discovery.DiscoveryRequest{}
		_ = protojson.Unmarshal(body, request)
		s.mu.Lock()
		s.fetches = append(s.fetches, fetchRecord{
			Path: r.URL.Path, NodeID: request.GetNode().GetId(), Version: request.GetVersionInfo(), Names: request.GetResourceNames(), Status: code,
		})
		s.fetches = s.fetches[max(0, len(s.fetches)-keptFetches):]
		s.mu.Unlock()
		w.Header().Set("content-type", "application/json")
		w.WriteHeader(code)
		_, _ = w.Write(answer)
	})
}

func (s *streams) getStreams(*http.Request) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	records, open := []*streamRecord{}, 0
	for _, each := range s.records {
		records = append(records, each.record)
		if each.record.Open {
			open++
		}
	}
	// Marshalled here, under the lock: the records are live.
	body, err := json.Marshal(map[string]any{
		"mode": s.mode, "open": open, "opened": s.opened, "refused": s.refused, "streams": records, "fetches": s.fetches,
	})
	return json.RawMessage(body), err
}

func (s *streams) postBehaviour(r *http.Request) (any, error) {
	var behaviour struct {
		Mode       string `json:"mode"`
		EndStreams bool   `json:"endStreams"`
	}
	if err := json.NewDecoder(r.Body).Decode(&behaviour); err != nil {
		return nil, err
	}
	if !knownMode(behaviour.Mode) {
		return nil, fmt.Errorf("unknown mode %q", behaviour.Mode)
	}
	s.setMode(behaviour.Mode, behaviour.EndStreams)
	return map[string]any{}, nil
}
