package api

import (
	"maps"
	"net"
	"net/http"
	"net/url"
	"time"

	"ingot/internal/platform"
)

// link is a link to a resource; nil becomes null.
type link struct {
	Href   string `json:"href"`
	Method string `json:"method,omitempty"`
	Meta   any    `json:"meta,omitempty"`
}

func href(parts ...string) *link {
	l := &link{}
	for _, p := range parts {
		l.Href += p
	}
	return l
}

type metadata struct {
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

func emptyMetadata() metadata {
	return metadata{Labels: map[string]string{}, Annotations: map[string]string{}}
}

// timestamp is a time as the v3 API writes it: UTC, to the second.
func timestamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }

// baseURL returns the origin of the request, so that the client can follow the
// links in the response.
func baseURL(r *http.Request) string {
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	// Set by a proxy that terminates TLS. Only these two values are accepted,
	// because the value becomes part of links.
	if p := r.Header.Get("X-Forwarded-Proto"); p == "https" || p == "http" {
		scheme = p
	}
	host := r.Host
	if host == "" { // HTTP/1.0
		if addr, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
			host = addr.String()
		}
	}
	return scheme + "://" + host
}

// links of a resource.
type links map[string]*link

// resourceBody has the members that every resource begins with.
type resourceBody struct {
	GUID    string `json:"guid"`
	Created string `json:"created_at"`
	Updated string `json:"updated_at"`
}

func presentResource(r *platform.Resource) resourceBody {
	return resourceBody{r.GUID, timestamp(r.Created), timestamp(r.Updated)}
}

func presentMetadata(m *platform.Metadata) metadata {
	out := emptyMetadata()
	maps.Copy(out.Labels, m.Labels)
	maps.Copy(out.Annotations, m.Annotations)
	return out
}

// presentAll maps a page to its bodies. The result is never nil, because clients
// expect a list.
func presentAll[T, B any](items []*T, present func(*T) B) []B {
	out := make([]B, 0, len(items))
	for _, item := range items {
		out = append(out, present(item))
	}
	return out
}

// orNull returns nil for the empty string.
func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// deref returns the values of pointers.
func deref[T any](list []*T) []T {
	out := make([]T, len(list))
	for i, p := range list {
		out[i] = *p
	}
	return out
}

// escape escapes a guid, which clients may choose, for a path.
func escape(guid string) string { return url.PathEscape(guid) }

// hidden replaces values that only developers may see, hiddenInLists commands in
// lists, which more users can read.
const (
	hidden        = "[PRIVATE DATA HIDDEN]"
	hiddenInLists = "[PRIVATE DATA HIDDEN IN LISTS]"
)

func nonNil(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}
