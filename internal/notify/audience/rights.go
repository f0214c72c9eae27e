package audience

import (
	"context"
	"net/http"
	"path"
	"slices"
	"time"

	"github.com/maypok86/otter/v2"

	"ingot/internal/base/fault"
	"ingot/internal/base/uaaclient"
	"ingot/internal/notify"
)

const (
	// rightsFor is how long what a client may do is cached. It is short, because a right that was taken away should
	// have no effect soon; it only saves a request for each of many recurring sends that are due together.
	rightsFor  = 5 * time.Second
	rightsSize = 10_000
)

// grant is what a client, or a user of it, may do.
type grant struct {
	scopes []string // patterns
	all    bool     // what it may do is not known
	gone   string   // why it may do nothing
	until  time.Time
}

func newRights() *otter.Cache[string, *grant] {
	return otter.Must(&otter.Options[string, *grant]{
		MaximumSize: rightsSize, ExpiryCalculator: otter.ExpiryWriting[string, *grant](rightsFor),
	})
}

var _ notify.Rights = (*Directory)(nil)

// Held implements notify.Rights.
func (d *Directory) Held(ctx context.Context, clientID string, by *notify.Holder, scopes []string) ([]string, error) {
	key := clientID
	if by != nil {
		key += "\x00" + by.UserID
	}
	g, ok := d.rights.GetIfPresent(key)
	if !ok || !d.o.Now().Before(g.until) {
		var err error
		if g, err = d.grant(ctx, clientID, by); err != nil {
			// Whatever the server answered, it did not say that the right is gone.
			return nil, fault.Wrap(err, fault.Unavailable, "The authorization server did not say what the client %q may do. "+
				"Try again later.", clientID).After(retryAfter)
		}
		g.until = d.o.Now().Add(rightsFor)
		d.rights.Set(key, g)
	}
	if g.gone != "" {
		return nil, fault.New(fault.NotFound, "%s, so nothing was sent", g.gone)
	}
	var held []string
	for _, scope := range scopes {
		if g.all || covers(g.scopes, scope) {
			held = append(held, scope)
		}
	}
	return held, nil
}

// covers reports whether a list of scopes has one. Those of a UAA's clients may contain stars.
func covers(list []string, scope string) bool {
	return slices.ContainsFunc(list, func(one string) bool {
		matches, _ := path.Match(one, scope)
		return one == scope || matches
	})
}

func (d *Directory) grant(ctx context.Context, clientID string, by *notify.Holder) (*grant, error) {
	g := &grant{}
	c, err := d.o.UAA.FindClient(ctx, clientID)
	switch {
	case uaaclient.StatusOf(err) == http.StatusForbidden:
		d.unknown.Do(func() {
			d.o.Log.WarnContext(ctx, "the service's client lacks clients.read: recurring sends go on when their client is "+
				"deleted or loses a right", "error", err)
		})
		g.all = true
	case err != nil:
		return nil, err
	case c == nil:
		return &grant{gone: "The client \"" + clientID + "\" no longer exists"}, nil
	case by == nil: // it is not known which of the two it was
		g.scopes = slices.Concat(c.Authorities, c.Scopes)
	case by.UserID == "":
		g.scopes = c.Authorities
	default:
		g.scopes = c.Scopes
	}
	if by == nil || by.UserID == "" {
		return g, nil
	}
	groups, err := d.o.UAA.GroupsOf(ctx, by.UserID)
	if err != nil {
		return nil, err
	}
	if groups == nil {
		return &grant{gone: "The user \"" + by.UserID + "\", who set it, no longer exists or is not active"}, nil
	}
	if !g.all {
		groups = slices.DeleteFunc(groups, func(name string) bool { return !covers(g.scopes, name) })
	}
	return &grant{scopes: groups}, nil
}
