package builds

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/platform/api/rest"
)

const (
	// linkPath is the beginning of download links; the kind and the guid of a blob follow.
	linkPath = "/v3/ingot/downloads/"
	// linkLife is how long a link can be used. A download that has begun is not cut off.
	linkLife = 5 * time.Minute
	// linkPause is after which a request that found too many others is told to try again.
	linkPause = 5 * time.Second
)

// The kinds of blobs that have links, as in their paths.
const (
	packageBits = "packages"
	dropletBits = "droplets"
)

// Links makes and checks the links with which packages and droplets are downloaded. As a bucket's, each is for one
// blob, needs no token and expires soon: clients of Cloud Foundry expect a redirect to one, and follow it without
// their token.
type Links struct {
	// Key signs links. Servers that share a database share it, because any of them may get the request.
	Key []byte
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// NewLinkKey returns a key for Links.
func NewLinkKey() []byte {
	key := make([]byte, sha256.Size)
	rand.Read(key) //nolint:errcheck // crypto/rand.Read never fails, it ends the process instead
	return key
}

func (l Links) now() time.Time {
	if l.Now == nil {
		return time.Now()
	}
	return l.Now()
}

// sign returns the signature of a link. The method is part of it, so that a link to read can never be used for
// something else; HEAD is answered as a GET whose body is discarded.
func (l Links) sign(kind, guid, expires string) []byte {
	mac := hmac.New(sha256.New, l.Key)
	fmt.Fprintf(mac, "download link %q", []string{http.MethodGet, kind, guid, expires})
	return mac.Sum(nil)
}

// To returns a link to a blob on the host of a request. The kind is "packages" or "droplets".
func (l Links) To(r *http.Request, kind, guid string) string {
	expires := strconv.FormatInt(l.now().Add(linkLife).Unix(), 10)
	return rest.BaseURL(r) + linkPath + kind + "/" + rest.Escape(guid) + "?" + url.Values{
		"expires":   {expires},
		"signature": {base64.RawURLEncoding.EncodeToString(l.sign(kind, guid, expires))},
	}.Encode()
}

// linkTurns is how many requests may follow links to one blob at the same time. Getting a link counts against the
// limits of requests, following it does not, and anyone who has it may.
const linkTurns = 10

// turns counts the downloads of each blob by its links.
type turns struct {
	mu   sync.Mutex
	open map[string]int
}

// take returns false if too many requests download the blob.
func (t *turns) take(blob string) (give func(), ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open[blob] >= linkTurns {
		return nil, false
	}
	if t.open == nil {
		t.open = map[string]int{}
	}
	t.open[blob]++
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.open[blob]--; t.open[blob] == 0 {
			delete(t.open, blob)
		}
	}, true
}

// check returns an error unless a request has a link to the blob that can be used.
func (l Links) check(r *http.Request, kind, guid string) error {
	query := r.URL.Query()
	expires := query.Get("expires")
	signature, err := base64.RawURLEncoding.DecodeString(query.Get("signature"))
	if err != nil || !hmac.Equal(signature, l.sign(kind, guid, expires)) {
		return fault.New(fault.Forbidden, "The download link is not valid: request the download of the %s again",
			kind[:len(kind)-1])
	}
	until, err := strconv.ParseInt(expires, 10, 64)
	if err != nil || !l.now().Before(time.Unix(until, 0)) {
		return fault.New(fault.Forbidden, "The download link has expired: request the download of the %s again",
			kind[:len(kind)-1])
	}
	return nil
}

// linkRoutes registers the paths of links. They do not count against the limits of requests: the requests that got the
// links did.
func (a *API) linkRoutes(g *web.Group) {
	g = g.Limited(nil).Within(downloads)
	signed := web.Own("the link is signed; the request that got it was authorized")
	g.Handle(http.MethodGet, linkPath+packageBits+"/{guid}", signed, a.linked(packageBits, Blobs.OpenPackage))
	g.Handle(http.MethodGet, linkPath+dropletBits+"/{guid}", signed, a.linked(dropletBits, Blobs.OpenDroplet))
}

// linked sends the blob of a link.
func (a *API) linked(kind string, open func(Blobs, context.Context, string) (Download, error)) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		guid := web.Param(r, "guid")
		if err := a.Links.check(r, kind, guid); err != nil {
			return err
		}
		give, ok := a.turns.take(kind + "/" + guid)
		if !ok {
			return fault.New(fault.RateLimited, "%d requests download this %s with links: try again when one has ended",
				linkTurns, kind[:len(kind)-1]).After(linkPause)
		}
		defer give()
		d, err := open(a.Blobs, r.Context(), guid)
		if err != nil {
			return err
		}
		return serveBlob(w, r, d)
	}
}
