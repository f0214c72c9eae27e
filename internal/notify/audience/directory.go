package audience

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/mail"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/maypok86/otter/v2"

	"ingot/internal/base/fault"
	"ingot/internal/base/uaaclient"
	"ingot/internal/notify"
)

// Options configure a Directory.
type Options struct {
	// UAA is the client of the authorization server. It needs scim.read, and
	// cloud_controller.admin_read_only or more on the platform.
	UAA *uaaclient.Client
	// PlatformURL is the base of the v3 API; empty when there is no platform.
	PlatformURL string
	// DefaultScopes are the scopes that every user has, to which nothing can be
	// sent; nil means DefaultScopes().
	DefaultScopes []string
	// HTTP is used for requests to the platform; nil means
	// uaaclient.NewHTTPClient.
	HTTP *http.Client
	Log  *slog.Logger
	Now  func() time.Time
}

// DefaultScopes are the scopes that a UAA gives to every user.
func DefaultScopes() []string {
	return []string{
		"approvals.me", "cloud_controller.read", "cloud_controller.write", "cloud_controller_service_permissions.read",
		"notification_preferences.read",
		"notification_preferences.write", "oauth.approvals", "openid", "password.write", "profile", "roles", "scim.me",
		"scim.userids",
		"uaa.offline_token", "uaa.user", "user_attributes",
	}
}

const (
	// knownFor and unknownFor are how long the address of a user, or that there
	// is no such user, is cached. They are short, because a changed address
	// should be used soon.
	knownFor   = time.Minute
	unknownFor = 10 * time.Second
	cacheSize  = 100_000
	// scopeFor is how long the members of a scope are cached for the next page,
	// because the server returns them all at once.
	scopeFor = 2 * time.Minute
	// peopleAtOnce is the maximum page size of UAA.
	peopleAtOnce = 500
)

// Directory is a notify.Directory. It is safe for concurrent use.
type Directory struct {
	o        Options
	defaults map[string]bool
	emails   *otter.Cache[string, *entry]
	phones   *otter.Cache[string, *entry]
	locales  *otter.Cache[string, *entry]
	rights   *otter.Cache[string, *grant]
	unknown  sync.Once // logs that rights are not known
	scopes   struct {
		sync.Mutex
		members map[string]scopeMembers
	}
}

var _ notify.Directory = (*Directory)(nil)

// entry is the cached address or locale of a user.
type entry struct {
	value string
	known bool
	until time.Time
}

type scopeMembers struct {
	ids   []string // sorted
	until time.Time
}

// New returns a directory.
func New(o Options) *Directory {
	o.PlatformURL = strings.TrimRight(o.PlatformURL, "/")
	if o.DefaultScopes == nil {
		o.DefaultScopes = DefaultScopes()
	}
	if o.HTTP == nil {
		o.HTTP = uaaclient.NewHTTPClient(nil)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	cache := func() *otter.Cache[string, *entry] {
		return otter.Must(&otter.Options[string, *entry]{
			MaximumSize: cacheSize, ExpiryCalculator: otter.ExpiryWriting[string, *entry](knownFor),
		})
	}
	d := &Directory{o: o, defaults: map[string]bool{}, emails: cache(), phones: cache(), locales: cache(),
		rights: newRights()}
	for _, s := range o.DefaultScopes {
		d.defaults[s] = true
	}
	d.scopes.members = map[string]scopeMembers{}
	return d
}

// Close closes idle connections to the platform.
func (d *Directory) Close() { d.o.HTTP.CloseIdleConnections() }

// Resolve implements notify.Directory.
func (d *Directory) Resolve(ctx context.Context, a notify.Audience) (notify.Audience, error) {
	switch a.Type {
	case notify.ToSpace:
		return d.resolveSpace(ctx, a)
	case notify.ToOrg:
		return d.resolveOrg(ctx, a)
	case notify.ToScope:
		_, err := d.scope(ctx, a.ID)
		return a, err
	}
	return a, nil
}

// Page implements notify.Directory.
func (d *Directory) Page(ctx context.Context, a notify.Audience, cursor string, limit int) ([]notify.Recipient,
	string, error) {
	limit = max(limit, 1)
	switch a.Type {
	case notify.ToUser:
		return []notify.Recipient{{UserID: a.ID}}, "", nil
	case notify.ToEmail:
		return []notify.Recipient{{Email: a.ID}}, "", nil
	case notify.ToEveryone:
		return d.everyone(ctx, cursor, limit)
	case notify.ToScope:
		return d.scopePage(ctx, a.ID, cursor, limit)
	case notify.ToSpace, notify.ToOrg:
		return d.rolesPage(ctx, a, cursor, limit)
	}
	return nil, "", fault.New(fault.Unprocessable, "%q is not a valid audience", a.Type)
}

// Cursors of everyone: ">id" continues after an id, "#n" with the n-th user.
const (
	afterID = ">"
	atIndex = "#"
)

func (d *Directory) everyone(ctx context.Context, cursor string, limit int) ([]notify.Recipient, string, error) {
	count := min(limit, peopleAtOnce)
	if index, ok := strings.CutPrefix(cursor, atIndex); ok {
		start, err := strconv.Atoi(index)
		if err != nil || start < 1 {
			return nil, "", badCursor(cursor)
		}
		people, more, err := d.o.UAA.PeopleFrom(ctx, start, count)
		return d.peoplePage(people, more, atIndex+strconv.Itoa(start+len(people)), err)
	}
	id, ok := strings.CutPrefix(cursor, afterID)
	if cursor != "" && !ok {
		return nil, "", badCursor(cursor)
	}
	people, more, err := d.o.UAA.PeopleAfter(ctx, id, count)
	if uaaclient.StatusOf(err) == http.StatusBadRequest {
		// The server cannot compare ids. Counting from the beginning repeats
		// some users, which is allowed; missing some is not.
		d.o.Log.WarnContext(ctx, "authorization server does not support \"id gt\", reading users by index", "error", err)
		return d.everyone(ctx, atIndex+"1", limit)
	}
	next := cursor
	if len(people) > 0 {
		next = afterID + people[len(people)-1].ID
	}
	return d.peoplePage(people, more, next, err)
}

func badCursor(cursor string) error {
	return errors.New("the cursor " + strconv.Quote(cursor) + " is invalid")
}

func (d *Directory) peoplePage(people []uaaclient.Person, more bool, next string, err error) ([]notify.Recipient,
	string, error) {
	if err != nil {
		return nil, "", uaaFault(err)
	}
	out := make([]notify.Recipient, 0, len(people))
	for _, p := range people {
		email := usable(p.Emails)
		if email == "" {
			// Cache it, so that delivery does not look it up again.
			d.remember(d.emails, p.ID, email, true)
		}
		out = append(out, notify.Recipient{UserID: p.ID, Email: email})
	}
	if !more {
		next = ""
	}
	return out, next, nil
}

// usable returns the first valid mail address, or "" if the user has none.
func usable(emails []string) string {
	for _, e := range emails {
		e = strings.TrimSpace(e)
		if a, err := mail.ParseAddress(e); err == nil && a.Address == e && a.Name == "" {
			return e
		}
	}
	return ""
}

func (d *Directory) remember(in *otter.Cache[string, *entry], id, value string, known bool) {
	life := knownFor
	if !known {
		life = unknownFor
	}
	in.Set(id, &entry{value, known, d.o.Now().Add(life)})
}

// Emails implements notify.Directory.
func (d *Directory) Emails(ctx context.Context, userIDs []string) (map[string]string, error) {
	return d.cached(d.emails, userIDs, func(ids []string) (map[string]string, error) {
		people, err := d.o.UAA.PeopleByID(ctx, ids)
		emails := make(map[string]string, len(people))
		for id, p := range people {
			emails[id] = usable(p.Emails)
		}
		return emails, err
	})
}

// Locales implements notify.Directory.
func (d *Directory) Locales(ctx context.Context, userIDs []string) (map[string]string, error) {
	return d.cached(d.locales, userIDs, func(ids []string) (map[string]string, error) {
		return d.o.UAA.LocalesByID(ctx, ids)
	})
}

// Phones implements notify.Directory.
func (d *Directory) Phones(ctx context.Context, userIDs []string) (map[string]string, error) {
	return d.cached(d.phones, userIDs, func(ids []string) (map[string]string, error) {
		found, err := d.o.UAA.PhonesByID(ctx, ids)
		phones := make(map[string]string, len(found))
		for id, numbers := range found {
			phones[id] = "" // the user exists
			for _, n := range numbers {
				if usable := notify.NormalPhone(n); usable != "" {
					phones[id] = usable
					break
				}
			}
		}
		return phones, err
	})
}

// cached returns what a cache has about users, and asks the authorization server for the others.
func (d *Directory) cached(in *otter.Cache[string, *entry], userIDs []string,
	asking func(ids []string) (map[string]string, error)) (map[string]string, error) {
	out := make(map[string]string, len(userIDs))
	asked := make(map[string]bool, len(userIDs))
	var ask []string
	now := d.o.Now()
	for _, id := range userIDs {
		if id == "" || asked[id] {
			continue
		}
		asked[id] = true
		e, ok := in.GetIfPresent(id)
		switch {
		case !ok || !now.Before(e.until):
			ask = append(ask, id)
		case e.known:
			out[id] = e.value
		}
	}
	if len(ask) == 0 {
		return out, nil
	}
	found, err := asking(ask)
	if err != nil {
		return nil, uaaFault(err)
	}
	for _, id := range ask {
		value, known := found[id]
		d.remember(in, id, value, known)
		if known {
			out[id] = value
		}
	}
	return out, nil
}

// scope returns the ids of the users that have a scope, sorted.
func (d *Directory) scope(ctx context.Context, name string) ([]string, error) {
	if d.defaults[name] {
		return nil, fault.New(fault.NotAcceptable, "You cannot send a notification to a default scope")
	}
	now := d.o.Now()
	d.scopes.Lock()
	for scope, m := range d.scopes.members {
		if !now.Before(m.until) {
			delete(d.scopes.members, scope)
		}
	}
	kept, ok := d.scopes.members[name]
	d.scopes.Unlock()
	if ok {
		return kept.ids, nil
	}
	ids, err := d.membersOf(ctx, name)
	if err != nil {
		return nil, err
	}
	d.scopes.Lock()
	defer d.scopes.Unlock()
	if len(d.scopes.members) < keptScopes {
		d.scopes.members[name] = scopeMembers{ids, now.Add(scopeFor)}
	}
	return ids, nil
}

const (
	// keptScopes limits the number of scopes whose members are cached.
	keptScopes = 8
	// maxGroups limits the number of groups that are read for one scope.
	maxGroups = 1000
)

// membersOf reads a group and its nested groups, whose members have the scope
// too.
func (d *Directory) membersOf(ctx context.Context, name string) ([]string, error) {
	group, err := d.o.UAA.GroupByName(ctx, name)
	if err != nil {
		return nil, uaaFault(err)
	}
	if group == nil {
		return nil, fault.New(fault.NotFound,
			"Scope %q could not be found: the authorization server has no group of that name", name)
	}
	var ids []string
	seen := map[string]bool{group.ID: true}
	waiting := []*uaaclient.Group{group}
	for len(waiting) > 0 {
		group, waiting = waiting[0], waiting[1:]
		for _, m := range group.Members {
			switch {
			case m.ID == "":
			case !m.IsGroup():
				ids = append(ids, m.ID)
			case !seen[m.ID] && len(seen) < maxGroups:
				seen[m.ID] = true
				inner, err := d.o.UAA.GroupByID(ctx, m.ID)
				if err != nil {
					return nil, uaaFault(err)
				}
				if inner != nil {
					waiting = append(waiting, inner)
				}
			}
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}

func (d *Directory) scopePage(ctx context.Context, name, cursor string, limit int) ([]notify.Recipient, string, error) {
	ids, err := d.scope(ctx, name)
	if err != nil {
		return nil, "", err
	}
	from, found := slices.BinarySearch(ids, cursor)
	if found {
		from++
	}
	ids = ids[from:]
	more := len(ids) > limit
	if more {
		ids = ids[:limit]
	}
	out := make([]notify.Recipient, 0, len(ids))
	for _, id := range ids {
		out = append(out, notify.Recipient{UserID: id})
	}
	if !more {
		return out, "", nil
	}
	return out, ids[len(ids)-1], nil
}

// uaaFault converts a failed request to an error for the sender.
func uaaFault(err error) error {
	if status := uaaclient.StatusOf(err); status != 0 && status != http.StatusServiceUnavailable &&
		status != http.StatusTooManyRequests {
		return fault.Wrap(err, fault.BadGateway,
			"The authorization server responded with status %d to a request for users. Try again later, or ask the operator.",
			status)
	}
	return fault.Wrap(err, fault.Unavailable, "The authorization server is unavailable. Try again later.").
		After(retryAfter)
}

const retryAfter = 10 * time.Second
