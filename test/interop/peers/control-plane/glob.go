package main

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync"

	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
)

// globCache is a LinearCache that also answers xdstp globs on delta streams.
//
// go-control-plane v0.14 supports exact names and "*" only. It treats a glob as an exact name, which
// never exists, so a client that subscribes a glob waits forever. This layer gives the LinearCache
// each subscription with its globs expanded. Everything else is the library's own behaviour:
//   - it sends no response for a name or a glob without content, not even a removal;
//   - it does not resend a name subscribed again while the client holds its version;
//   - versions are content hashes; NACKs change nothing.
//
// A glob matches one level, as in TP1 (the library's later versions match recursively). SotW streams
// support names and "*" only: the library forgets the returned names that were not requested, and
// would send members again and again.
type globCache struct {
	*cache.LinearCache

	// LinearCache calls into globSubscription with its own lock held, so this one is always the
	// inner lock: it is never held while the LinearCache is called.
	mu      sync.Mutex
	members map[string]map[string]struct{} // glob -> names
}

func newGlobCache(typeURL string) *globCache {
	return &globCache{
		LinearCache: cache.NewLinearCache(typeURL),
		members:     make(map[string]map[string]struct{}),
	}
}

// globOf returns the one glob that covers name, or "" for names that no glob covers.
func globOf(name string) string {
	if !strings.HasPrefix(name, "xdstp:") {
		return ""
	}
	path, parameters, found := strings.Cut(name, "?")
	if found {
		parameters = "?" + parameters
	}
	return path[:strings.LastIndexByte(path, '/')+1] + "*" + parameters
}

// update applies upserts and removals as one change: one response for each watch affected.
func (c *globCache) update(upserts map[string]types.Resource, removals []string) error {
	touched := make(map[string]struct{})
	c.mu.Lock()
	for name := range upserts {
		if glob := globOf(name); glob != "" {
			if c.members[glob] == nil {
				c.members[glob] = make(map[string]struct{})
			}
			c.members[glob][name] = struct{}{}
			touched[glob] = struct{}{}
		}
	}
	for _, name := range removals {
		if glob := globOf(name); glob != "" {
			delete(c.members[glob], name)
			touched[glob] = struct{}{}
		}
	}
	c.mu.Unlock()
	// The LinearCache indexes watches by their requested names, globs too. It checks the watches of
	// a glob again because the glob is listed as removed (although it never exists).
	return c.UpdateResources(upserts, append(removals, mapKeys(touched)...))
}

// replace sets the complete content: it removes every resource that is not given.
func (c *globCache) replace(resources map[string]types.Resource) error {
	var removals []string
	for name := range c.GetResources() {
		if _, stays := resources[name]; !stays {
			removals = append(removals, name)
		}
	}
	return c.update(resources, removals)
}

func (c *globCache) CreateDeltaWatch(request *cache.DeltaRequest, sub cache.Subscription, out chan cache.DeltaResponse) (func(), error) {
	if sub.IsWildcard() {
		return c.LinearCache.CreateDeltaWatch(request, sub, out)
	}
	return c.LinearCache.CreateDeltaWatch(request, c.expand(sub), out)
}

func (c *globCache) expand(sub cache.Subscription) *globSubscription {
	asked := sub.SubscribedResources()
	// Resources returned for an unsubscribed glob are forgotten, as the library does for names. Otherwise
	// they would be sent as removed, and not be sent again when the glob is subscribed again.
	returned := make(map[string]string)
	for name, version := range sub.ReturnedResources() {
		_, byName := asked[name]
		_, byGlob := asked[globOf(name)]
		if byName || byGlob {
			returned[name] = version
		} else {
			delete(sub.ReturnedResources(), name)
		}
	}
	return &globSubscription{Subscription: sub, cache: c, returned: returned, seen: maps.Clone(asked)}
}

// globSubscription replaces a subscription with globs for the LinearCache, which calls all methods
// with its lock held.
type globSubscription struct {
	cache.Subscription
	cache    *globCache
	returned map[string]string
	// Every name this watch ever matched. It only grows, because the LinearCache deletes the watch
	// from its index by these names, and a watch that stays in the index would respond twice.
	seen map[string]struct{}
}

func (s *globSubscription) ReturnedResources() map[string]string { return s.returned }

func (s *globSubscription) SubscribedResources() map[string]struct{} {
	s.cache.mu.Lock()
	defer s.cache.mu.Unlock()
	for asked := range s.Subscription.SubscribedResources() {
		maps.Copy(s.seen, s.cache.members[asked])
	}
	return s.seen
}

// typeCaches is the library's MuxCache with caches made on demand: a MuxCache ends a stream that
// requests an unknown type.
type typeCaches struct {
	mu     sync.Mutex
	byType map[string]*globCache
}

func newTypeCaches() *typeCaches { return &typeCaches{byType: make(map[string]*globCache)} }

func (t *typeCaches) of(typeURL string) *globCache {
	t.mu.Lock()
	defer t.mu.Unlock()
	found, ok := t.byType[typeURL]
	if !ok {
		found = newGlobCache(typeURL)
		t.byType[typeURL] = found
	}
	return found
}

func (t *typeCaches) typeURLs() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return mapKeys(t.byType)
}

func (t *typeCaches) CreateWatch(request *cache.Request, sub cache.Subscription, out chan cache.Response) (func(), error) {
	return t.of(request.GetTypeUrl()).CreateWatch(request, sub, out)
}

func (t *typeCaches) CreateDeltaWatch(request *cache.DeltaRequest, sub cache.Subscription, out chan cache.DeltaResponse) (func(), error) {
	return t.of(request.GetTypeUrl()).CreateDeltaWatch(request, sub, out)
}

func (t *typeCaches) Fetch(context.Context, *cache.Request) (cache.Response, error) {
	return nil, errors.New("fetch is not served")
}

func mapKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	return keys
}
