package rest

import (
	"maps"
	"net"
	"net/http"
	"net/url"
	"time"

	"ingot/internal/platform"
)

// Link is a link to a resource; nil becomes null.
type Link struct {
	Href   string `json:"href"`
	Method string `json:"method,omitempty"`
	Meta   any    `json:"meta,omitempty"`
}

// Href returns a link whose URL has these parts.
func Href(parts ...string) *Link {
	l := &Link{}
	for _, p := range parts {
		l.Href += p
	}
	return l
}

// Metadata are the labels and annotations of a resource, never null.
type Metadata struct {
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

// Timestamp is a time as the v3 API writes it: UTC, to the second.
func Timestamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }

// BaseURL returns the origin of the request, so that the client can follow the
// links in the response.
func BaseURL(r *http.Request) string {
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

// Links of a resource.
type Links map[string]*Link

// ResourceBody has the members that every resource begins with.
type ResourceBody struct {
	GUID    string `json:"guid"`
	Created string `json:"created_at"`
	Updated string `json:"updated_at"`
}

// PresentResource presents the common members of a resource.
func PresentResource(r *platform.Resource) ResourceBody {
	return ResourceBody{r.GUID, Timestamp(r.Created), Timestamp(r.Updated)}
}

// PresentMetadata presents labels and annotations.
func PresentMetadata(m *platform.Metadata) Metadata {
	out := Metadata{Labels: map[string]string{}, Annotations: map[string]string{}}
	maps.Copy(out.Labels, m.Labels)
	maps.Copy(out.Annotations, m.Annotations)
	return out
}

// PresentAll maps a page to its bodies. The result is never nil, because clients
// expect a list.
func PresentAll[T, B any](items []*T, present func(*T) B) []B {
	out := make([]B, 0, len(items))
	for _, item := range items {
		out = append(out, present(item))
	}
	return out
}

// OrNull returns nil for the empty string.
func OrNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// Escape escapes a guid, which clients may choose, for a path.
func Escape(guid string) string { return url.PathEscape(guid) }

// Hidden replaces values that only developers may see, HiddenInLists commands in
// lists, which more users can read.
const (
	Hidden        = "[PRIVATE DATA HIDDEN]"
	HiddenInLists = "[PRIVATE DATA HIDDEN IN LISTS]"
)

// NonNil returns an empty map for nil, because clients expect an object.
func NonNil[M ~map[string]V, V any](m M) M {
	if m == nil {
		return M{}
	}
	return m
}
