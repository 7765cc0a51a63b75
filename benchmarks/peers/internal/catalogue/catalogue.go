// Package catalogue makes the resources that every server under test serves: cluster load
// assignments of about 1 KiB, one a name, numbered from 0.
//
// Each body carries a marker: when the change was made, its sequence number, and which server
// made it. A load generator finds it by a byte search and needs to decode nothing.
package catalogue

import (
	"fmt"
	"strconv"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
)

const (
	resourceType = "envoy.config.endpoint.v3.ClusterLoadAssignment"
	// TypeURL is the one type of the whole benchmark.
	TypeURL = "type.googleapis.com/" + resourceType
	// MarkerPrefix opens a marker; nothing else in a resource contains it.
	MarkerPrefix = "@@"
	// MarkerLength is the fixed length: prefix, 16 hex digits of Unix nanoseconds, 8 of sequence, 1 origin.
	MarkerLength = len(MarkerPrefix) + 16 + 8 + 1

	endpointsEach = 32
)

// Naming is how the resources of an authority are called.
type Naming struct {
	Authority string
	// OldStyle drops "xdstp://", and nothing else, from the names.
	OldStyle bool
}

// Name is the name of resource `index`.
func (n Naming) Name(index int) string {
	return fmt.Sprintf("%s/r%06d", n.folder(), index)
}

// Wildcard subscribes all resources.
func (n Naming) Wildcard() string {
	if n.OldStyle {
		return "*"
	}
	return n.folder() + "/*"
}

func (n Naming) folder() string {
	scheme := "xdstp://"
	if n.OldStyle {
		scheme = ""
	}
	return fmt.Sprintf("%s%s/%s/all", scheme, n.Authority, resourceType)
}

// Index reads the number at the end of a name; false for any other name.
func Index(name string) (int, bool) {
	at := strings.LastIndexByte(name, 'r')
	if at < 0 || len(name)-at != 7 {
		return 0, false
	}
	index, err := strconv.Atoi(name[at+1:])
	return index, err == nil
}

// Marker writes what Body carries; unixNanos 0 is the first content.
func Marker(unixNanos int64, sequence uint32, origin byte) string {
	return fmt.Sprintf("%s%016x%08x%c", MarkerPrefix, unixNanos, sequence, origin)
}

// Body is a resource of about 1 KiB: 32 endpoints, the marker as the locality's zone.
func Body(name, marker string) *endpointv3.ClusterLoadAssignment {
	endpoints := make([]*endpointv3.LbEndpoint, endpointsEach)
	for i := range endpoints {
		endpoints[i] = &endpointv3.LbEndpoint{
			HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{
				Address: &corev3.Address{Address: &corev3.Address_SocketAddress{
					SocketAddress: &corev3.SocketAddress{
						Address:       fmt.Sprintf("10.0.0.%d", 10+i),
						PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: 8080},
					},
				}},
			}},
		}
	}
	return &endpointv3.ClusterLoadAssignment{
		ClusterName: name,
		Endpoints: []*endpointv3.LocalityLbEndpoints{{
			Locality:    &corev3.Locality{Zone: marker},
			LbEndpoints: endpoints,
		}},
	}
}
