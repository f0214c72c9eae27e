package httpext

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/notify"
	"ingot/internal/notify/inbox"
)

// registerInbox adds the routes of inboxes: those of clients, and those of their users, which need an inbox token.
func (f *handlers) registerInbox(g *web.Group) {
	g.Handle("POST", "/inbox/tokens", web.Scope(scopeWrite), f.createInboxToken)
	g.Handle("GET", "/inbox/origins", web.Scope(scopeManage), f.showOrigins)
	g.Handle("PUT", "/inbox/origins", web.Scope(scopeManage), f.setOrigins)

	user := web.Own("an inbox token, which the client issued for one of its users")
	for _, route := range []struct {
		method, pattern string
		do              func(http.ResponseWriter, *http.Request, inboxUser) error
	}{
		{"GET", "/inbox/notifications", f.listInbox},
		{"PATCH", "/inbox/notifications/{notification}", f.changeNotification},
		{"DELETE", "/inbox/notifications/{notification}", f.deleteNotification},
		{"GET", "/inbox/unread_count", f.unreadCount},
		{"POST", "/inbox/read_all", f.readAll},
		{"GET", "/inbox/events", f.inboxEvents},
	} {
		g.Handle(route.method, route.pattern, user, f.forUser(route.do))
	}
	// Browsers ask before they send a token to another origin. The answer says nothing about anyone: which origins a
	// client allows is decided by the request itself, whose token names the client.
	ask := web.Public("browsers ask it without a token; it reads nothing")
	for _, pattern := range []string{"/inbox/notifications", "/inbox/notifications/{notification}", "/inbox/unread_count",
		"/inbox/read_all", "/inbox/events"} {
		g.Handle("OPTIONS", pattern, ask, preflight)
	}
}

// inboxUser is who an inbox token is for, and until when.
type inboxUser struct {
	notify.Owner
	expires time.Time
}

// forUser authenticates a request by its inbox token.
func (f *handlers) forUser(do func(http.ResponseWriter, *http.Request, inboxUser) error) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		raw, ok := web.BearerToken(r)
		if !ok {
			return fault.New(fault.Unauthenticated, "An inbox token is required: the app issues it with POST /inbox/tokens").
				WithKind("unauthorized")
		}
		of, expires, err := f.Tokens.Open(raw)
		expired := errors.Is(err, inbox.ErrExpired)
		if err != nil && !expired {
			return fault.Wrap(err, fault.Unauthenticated, "The inbox token is not valid: issue one with POST /inbox/tokens").
				WithKind("unauthorized")
		}
		if err := f.allowOrigin(w, r, of.ClientID); err != nil {
			return err
		}
		if expired { // a page of an allowed origin may see that it needs a new one
			return fault.New(fault.Unauthenticated, "The inbox token has expired: issue a new one with POST /inbox/tokens").
				WithKind("unauthorized")
		}
		return do(w, r, inboxUser{of, expires})
	}
}

// allowOrigin lets pages of the origins that a client allows read the answer, and refuses others. Requests that no
// page makes have no origin.
func (f *handlers) allowOrigin(w http.ResponseWriter, r *http.Request, client string) error {
	w.Header().Add("Vary", "Origin")
	origin := r.Header.Get("Origin")
	if origin == "" {
		return nil
	}
	if at, err := url.Parse(origin); err == nil && at.Host == r.Host {
		return nil // a page of this server
	}
	allowed, err := f.Store.Origins(r.Context(), client)
	if err != nil {
		return err
	}
	if !slices.Contains(allowed, origin) {
		return fault.New(fault.Forbidden, "The client %q does not allow pages of %s to read inboxes: add the origin with "+
			"PUT /inbox/origins", client, origin)
	}
	w.Header().Set("Access-Control-Allow-Origin", origin)
	w.Header().Set("Access-Control-Expose-Headers", web.RequestIDHeader+", Retry-After")
	return nil
}

func preflight(w http.ResponseWriter, r *http.Request) error {
	h := w.Header()
	h.Add("Vary", "Origin")
	if origin := r.Header.Get("Origin"); origin != "" {
		h.Set("Access-Control-Allow-Origin", origin)
		h.Set("Access-Control-Allow-Methods", "GET, POST, PATCH, DELETE")
		h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, Last-Event-ID, "+VersionHeader)
		h.Set("Access-Control-Max-Age", "3600")
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

const maxInboxUser = 1000

// createInboxToken issues a token for the inbox that a user has of the caller's client.
func (f *handlers) createInboxToken(w http.ResponseWriter, r *http.Request) error {
	var body struct {
		UserID    string `json:"user_id"`
		ExpiresIn *int   `json:"expires_in"`
	}
	if err := web.DecodeStrict(r, &body); err != nil {
		return err
	}
	life := inbox.DefaultLife
	var problems []string
	if n := body.ExpiresIn; n != nil {
		life = time.Duration(min(*n, 1<<30)) * time.Second
		if life <= 0 || life > inbox.MaxLife {
			problems = append(problems, fmt.Sprintf(`"expires_in" must be between 1 and %d seconds`,
				int(inbox.MaxLife.Seconds())))
		}
	}
	if body.UserID == "" || len(body.UserID) > maxInboxUser || strings.ContainsRune(body.UserID, 0) {
		problems = append(problems, fmt.Sprintf(`"user_id" must be the id of a user, of 1 to %d bytes`, maxInboxUser))
	}
	if err := fault.Invalid(problems...); err != nil {
		return err
	}
	raw, expires, err := f.Tokens.Make(notify.Owner{ClientID: client(r), UserID: body.UserID}, life)
	if err != nil {
		return err
	}
	w.Header().Set("Cache-Control", "no-store")
	return web.Answer(w, http.StatusCreated, map[string]any{"token": raw, "user_id": body.UserID,
		"expires_at": expires.UTC()}, nil)
}

type originsBody struct {
	Origins []string `json:"origins"`
}

func (f *handlers) showOrigins(w http.ResponseWriter, r *http.Request) error {
	list, err := f.Store.Origins(r.Context(), client(r))
	return web.Answer(w, http.StatusOK, originsBody{append([]string{}, list...)}, err)
}

func (f *handlers) setOrigins(w http.ResponseWriter, r *http.Request) error {
	var body originsBody
	if err := web.DecodeStrict(r, &body); err != nil {
		return err
	}
	var problems []string
	for _, origin := range body.Origins {
		if !validOrigin(origin) {
			problems = append(problems, fmt.Sprintf("%q is not an origin such as https://app.example.com: scheme, host, "+
				"and port if it is not the usual one", origin))
		}
	}
	if len(body.Origins) > notify.MaxOrigins {
		problems = append(problems, fmt.Sprintf("%d origins are too many: at most %d are allowed", len(body.Origins),
			notify.MaxOrigins))
	}
	if err := fault.Invalid(problems...); err != nil {
		return err
	}
	if err := f.Store.SetOrigins(r.Context(), client(r), body.Origins); err != nil {
		return err
	}
	return f.showOrigins(w, r)
}

const maxOrigin = 300

// validOrigin accepts what browsers send.
func validOrigin(s string) bool {
	u, err := url.Parse(s)
	return err == nil && len(s) <= maxOrigin && (u.Scheme == "https" || u.Scheme == "http") && u.Hostname() != "" &&
		s == u.Scheme+"://"+strings.ToLower(u.Host)
}

// notificationBody is a notification as its user sees it.
type notificationBody struct {
	ID         string     `json:"id"`
	KindID     string     `json:"kind_id"`
	Title      string     `json:"title"`
	Text       string     `json:"text"`
	CreatedAt  time.Time  `json:"created_at"`
	ReadAt     *time.Time `json:"read_at"`
	ArchivedAt *time.Time `json:"archived_at"`
}

func presentNotification(ids *notify.IDs, n notify.Notification) notificationBody {
	at := func(t time.Time) *time.Time {
		if t.IsZero() {
			return nil
		}
		t = t.UTC()
		return &t
	}
	return notificationBody{ids.Message(n.Number), n.KindID, n.Title, n.Text, n.Created.UTC(), at(n.Read), at(n.Archived)}
}

// InboxEvent returns the function with which a hub writes notifications.
func InboxEvent(ids *notify.IDs) func(n notify.Notification, unread int) []byte {
	return func(n notify.Notification, unread int) []byte {
		// It consists of texts and times, which always can be encoded.
		out, _ := json.Marshal(map[string]any{"notification": presentNotification(ids, n), "unread_count": unread})
		return out
	}
}

const (
	inboxPage    = 50
	maxInboxPage = 200
)

// inboxQuery reads what selects notifications.
func inboxQuery(r *http.Request, of notify.Owner) (notify.InboxQuery, error) {
	in := notify.InboxQuery{Owner: of, Limit: inboxPage}
	q, err := readQuery(r, "archived", "unread", "limit", "after")
	if err != nil {
		return in, err
	}
	var problems []string
	for name, into := range map[string]*bool{"archived": &in.Archived, "unread": &in.Unread} {
		switch q.Get(name) {
		case "", "false":
		case "true":
			*into = true
		default:
			problems = append(problems, fmt.Sprintf("%q must be true or false", name))
		}
	}
	if s := q.Get("limit"); s != "" {
		if in.Limit, err = strconv.Atoi(s); err != nil || in.Limit < 1 || in.Limit > maxInboxPage {
			problems = append(problems, fmt.Sprintf(`"limit" must be between 1 and %d`, maxInboxPage))
		}
	}
	if s := q.Get("after"); s != "" {
		if in.Before, err = strconv.ParseInt(s, 10, 64); err != nil || in.Before < 1 {
			problems = append(problems, `"after" must be the value of "next" in an earlier answer`)
		}
	}
	return in, fault.Invalid(problems...)
}

func (f *handlers) listInbox(w http.ResponseWriter, r *http.Request, u inboxUser) error {
	q, err := inboxQuery(r, u.Owner)
	if err != nil {
		return err
	}
	state, _, err := f.Store.Inbox(r.Context(), u.Owner, 0, 0)
	if err != nil {
		return err
	}
	limit := q.Limit
	q.Limit++
	list, err := f.Store.Notifications(r.Context(), q)
	if err != nil {
		return err
	}
	next := ""
	if len(list) > limit {
		list = list[:limit]
		next = strconv.FormatInt(list[limit-1].Position, 10)
	}
	out := make([]notificationBody, 0, len(list))
	for _, n := range list {
		out = append(out, presentNotification(f.Service.IDs(), n))
	}
	// A stream that begins with this number misses nothing that is not in the list.
	return web.Answer(w, http.StatusOK, map[string]any{"notifications": out, "next": next, "unread_count": state.Unread,
		"last_event_id": strconv.FormatInt(state.Change, 10)}, nil)
}

func (f *handlers) unreadCount(w http.ResponseWriter, r *http.Request, u inboxUser) error {
	state, _, err := f.Store.Inbox(r.Context(), u.Owner, 0, 0)
	return web.Answer(w, http.StatusOK, map[string]int{"unread_count": state.Unread}, err)
}

func (f *handlers) notificationNumber(r *http.Request) (int64, error) {
	id := web.Param(r, "notification")
	number, ok := f.Service.IDs().MessageNumber(id)
	if !ok {
		return 0, missing(notify.ErrNotFound, "Notification", id)
	}
	return number, nil
}

func (f *handlers) changeNotification(w http.ResponseWriter, r *http.Request, u inboxUser) error {
	var body struct {
		Read     *bool `json:"read"`
		Archived *bool `json:"archived"`
	}
	if err := web.DecodeStrict(r, &body); err != nil {
		return err
	}
	if body.Read == nil && body.Archived == nil {
		return fault.Invalid(`nothing to change: give "read" or "archived", true or false`)
	}
	number, err := f.notificationNumber(r)
	if err != nil {
		return err
	}
	n, err := f.Store.ChangeNotification(r.Context(), u.Owner, number, notify.NotificationChange(body))
	if err != nil {
		return missing(err, "Notification", web.Param(r, "notification"))
	}
	f.Hub.Changed(u.Owner)
	return web.Answer(w, http.StatusOK, presentNotification(f.Service.IDs(), n), nil)
}

func (f *handlers) deleteNotification(w http.ResponseWriter, r *http.Request, u inboxUser) error {
	number, err := f.notificationNumber(r)
	if err != nil {
		return err
	}
	if err := f.Store.DeleteNotification(r.Context(), u.Owner, number); err != nil {
		return missing(err, "Notification", web.Param(r, "notification"))
	}
	f.Hub.Changed(u.Owner)
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (f *handlers) readAll(w http.ResponseWriter, r *http.Request, u inboxUser) error {
	n, err := f.Store.ReadAll(r.Context(), u.Owner)
	if err != nil {
		return err
	}
	f.Hub.Changed(u.Owner)
	return web.Answer(w, http.StatusOK, map[string]int{"read": n}, nil)
}

// inboxEvents answers with the events of an inbox.
func (f *handlers) inboxEvents(w http.ResponseWriter, r *http.Request, u inboxUser) error {
	last := int64(-1)
	if s := r.Header.Get("Last-Event-ID"); s != "" {
		var err error
		if last, err = strconv.ParseInt(s, 10, 64); err != nil || last < 0 {
			return fault.Invalid("Last-Event-ID must be the id of an event of this inbox")
		}
	}
	return f.Hub.Serve(w, r, u.Owner, u.expires, last, web.Closing(r.Context()).Done())
}
