package dns

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// InternalRoute is a route of an internal domain: a name, and the instances
// that it stands for.
type InternalRoute struct {
	GUID      string
	Name      string
	Instances []InternalInstance
}

// InternalInstance is an instance behind an internal route.
type InternalInstance struct {
	Index   int
	Address netip.Addr
}

// InternalNames are the routes of internal domains. Their names resolve to the
// addresses of the healthy instances, INDEX.NAME to that of one of them.
type InternalNames struct {
	mu     sync.RWMutex
	routes map[string]InternalRoute // by guid
	names  map[string]string        // guids by name
	// version counts the changes.
	version uint64
}

// Update sets routes and removes others, by guid.
func (n *InternalNames) Update(set []InternalRoute, gone []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.routes == nil {
		n.routes, n.names = map[string]InternalRoute{}, map[string]string{}
	}
	for _, guid := range gone {
		if _, known := n.routes[guid]; known {
			n.version++
		}
		n.remove(guid)
	}
	for _, r := range set {
		n.version++
		r.Name = strings.ToLower(r.Name)
		n.remove(r.GUID)
		n.routes[r.GUID], n.names[r.Name] = r, r.GUID
	}
}

// Replace replaces all routes.
func (n *InternalNames) Replace(all []InternalRoute) {
	n.mu.Lock()
	n.routes, n.names = nil, nil
	n.version++
	n.mu.Unlock()
	n.Update(all, nil)
}

// remove forgets a route; the lock is held.
func (n *InternalNames) remove(guid string) {
	if name := n.routes[guid].Name; n.names[name] == guid {
		delete(n.names, name)
	}
	delete(n.routes, guid)
}

// ByAddress returns the names of the routes of each instance, sorted, and their version; nil
// if that is the one that the caller knows.
func (n *InternalNames) ByAddress(known uint64) (names map[string][]string, version uint64) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if n.version == known {
		return nil, known
	}
	names = map[string][]string{}
	for _, r := range n.routes {
		for _, i := range r.Instances {
			at := i.Address.String()
			names[at] = append(names[at], r.Name)
		}
	}
	for at, all := range names {
		slices.Sort(all)
		names[at] = slices.Compact(all)
	}
	return names, n.version
}

// maxAnswers is how many addresses one answer has at most, as many as fit into a
// small message.
const maxAnswers = 24

// Lookup returns the addresses of a name in lower case, in a random order, and
// whether it exists.
func (n *InternalNames) Lookup(name string) ([]netip.Addr, bool) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	want := -1
	guid, ok := n.names[name]
	if !ok {
		first, rest, _ := strings.Cut(name, ".")
		index, err := strconv.ParseUint(first, 10, 31)
		if guid, ok = n.names[rest]; !ok || err != nil {
			return nil, false
		}
		want = int(index)
	}
	var list []netip.Addr
	for _, i := range n.routes[guid].Instances {
		if (want < 0 || i.Index == want) && !slices.Contains(list, i.Address) {
			list = append(list, i.Address)
		}
	}
	rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list[:min(len(list), maxAnswers)], len(list) > 0 || want < 0
}
