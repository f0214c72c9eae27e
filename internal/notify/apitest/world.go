package apitest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
	"ingot/internal/base/token"
	"ingot/internal/base/web"
	"ingot/internal/base/web/openapitest"
	"ingot/internal/notify"
	"ingot/internal/notify/actions"
	"ingot/internal/notify/httpext"
	"ingot/internal/notify/httpv1"
	"ingot/internal/notify/httpv2"
	"ingot/internal/notify/inbox"
	"ingot/internal/notify/mail/compose"
	"ingot/internal/notify/mail/mailbox"
	"ingot/internal/notify/notifydb"
	"ingot/internal/notify/template"
	"ingot/internal/notify/tracking"
)

// signingKey is of the kind that signs fast: tests make hundreds of tokens.
var signingKey = sync.OnceValue(func() *ecdsa.PrivateKey {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	return k
})

type keys struct{}

func (keys) Key(context.Context, string) (any, error) { return &signingKey().PublicKey, nil }

// All are the scopes of the service.
var All = []string{
	"notifications.write", "notifications.manage", "critical_notifications.write", "emails.write", "notifications.admin",
	"notification_templates.read", "notification_templates.write", "notification_preferences.admin",
}

// World is the service without delivery.
type World struct {
	t            testing.TB
	Store        notify.Store
	Service      *actions.Service
	Directory    *Directory
	IDs          *notify.IDs
	Unsubscriber *actions.Unsubscriber
	Mailbox      *mailbox.Mailbox
	Marker       *tracking.Marker
	Tokens       *inbox.Tokens
	Hub          *inbox.Hub
	// Domain is what receivers find when they check mail.
	Domain notify.DomainReport
	// Mail is what the server knows of mail servers.
	Mail notify.MailState
	// Kicks counts how often the delivery was woken.
	Kicks int

	handlers map[int]http.Handler
	Routes   map[int][]web.Route
	tokens   map[string]string
}

// New returns a service on an empty store with the built-in templates.
func New(t testing.TB) *World { return Limited(t, actions.Limits{}) }

// Limited is New with other limits.
func Limited(t testing.TB, limits actions.Limits) *World {
	t.Helper()
	return Bounded(t, limits, notify.Bounds{})
}

// Bounded is Limited with other bounds of what clients may store.
func Bounded(t testing.TB, limits actions.Limits, bounds notify.Bounds) *World {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	store, err := notifydb.Open(t.Context(), dbtest.New(t, db.SQLite), notifydb.Options{QueueLimit: limits.Queue,
		Bounds: bounds, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	w := &World{
		t: t, Store: store, handlers: map[int]http.Handler{}, Routes: map[int][]web.Route{}, tokens: map[string]string{},
		Directory: &Directory{Users: map[string]string{}, Members: map[string][]string{}},
	}
	for _, builtIn := range []notify.Template{template.Default(), template.DefaultV2()} {
		if err := store.SeedTemplate(t.Context(), builtIn); err != nil {
			t.Fatal(err)
		}
	}
	key, err := store.IDKey(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if w.IDs, err = notify.NewIDs(key); err != nil {
		t.Fatal(err)
	}
	if w.Unsubscriber, err = actions.NewUnsubscriber(key); err != nil {
		t.Fatal(err)
	}
	if w.Marker, err = tracking.NewMarker(key); err != nil {
		t.Fatal(err)
	}
	if w.Tokens, err = inbox.NewTokens(key, nil); err != nil {
		t.Fatal(err)
	}
	w.Hub = inbox.NewHub(inbox.Options{Store: store, Encode: httpext.InboxEvent(w.IDs)})
	if err := w.Hub.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Hub.Stop)
	w.Mailbox, err = mailbox.New(mailbox.Options{Dir: t.TempDir(), Identity: compose.Identity{From: "no-reply@example.com",
		Domain: "example.com"}, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	kick := func() { w.Kicks++ }
	w.Service = actions.New(actions.Options{Store: store, Directory: w.Directory, IDs: w.IDs, Limits: limits,
		Log: quiet, Kick: kick})
	verifier := token.NewVerifier(token.Options{Issuer: "test", Keys: keys{}})
	for version, format := range map[int]web.Format{1: web.FormatNotifications, 2: web.FormatNotificationsV2} {
		mux := web.NewMux(format, quiet, nil)
		g := mux.Group("notifications", format, verifier)
		description := httpext.DescriptionV1()
		if version == 1 {
			httpv1.Register(g, httpv1.Options{Store: store, Service: w.Service, Log: quiet})
		} else {
			httpv2.Register(g, httpv2.Options{Store: store, Service: w.Service, Directory: w.Directory, Log: quiet})
			description = httpext.DescriptionV2()
		}
		httpext.Register(g, httpext.Options{Store: store, Service: w.Service, Unsubscriber: w.Unsubscriber, Kick: kick,
			Mailbox: w.Mailbox, Description: description, Tokens: w.Tokens, Hub: w.Hub, PushKey: "the-public-key", Log: quiet,
			Marker: w.Marker, Address: web.Proxies{}.Client,
			CheckDomain: func(context.Context) notify.DomainReport { return w.Domain },
			MailState:   func() notify.MailState { return w.Mail }})
		w.handlers[version], w.Routes[version] = web.Pipeline(mux, format, quiet), mux.Routes()
	}
	return w
}

// Handler returns the service as version 1 or 2 of the API serves it.
func (w *World) Handler(version int) http.Handler { return w.handlers[version] }

// Client is a token of a client with scopes; none means All.
func (w *World) Client(id string, scopes ...string) string {
	w.t.Helper()
	if len(scopes) == 0 {
		scopes = All
	}
	return w.sign(token.Claims{ClientID: id, Scope: scopes})
}

// User is a token of a user.
func (w *World) User(id string, scopes ...string) string {
	w.t.Helper()
	return w.sign(token.Claims{ClientID: "cf", UserID: id, Scope: scopes})
}

// Expired is a token that is no longer valid.
func (w *World) Expired() string {
	w.t.Helper()
	return w.sign(token.Claims{ClientID: "c", Scope: All, ExpiresAt: time.Now().Add(-time.Hour).Unix()})
}

func (w *World) sign(c token.Claims) string {
	w.t.Helper()
	name := c.ClientID + "\x00" + c.UserID + "\x00" + strings.Join(c.Scope, " ")
	if raw, ok := w.tokens[name]; ok && c.ExpiresAt == 0 {
		return raw
	}
	c.ID, c.Issuer, c.IssuedAt = "id", "test", time.Now().Add(-2*time.Hour).Unix()
	if c.ExpiresAt == 0 {
		c.ExpiresAt = time.Now().Add(time.Hour).Unix()
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: signingKey(),
		KeyID: "k"}}, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	raw, err := jwt.Signed(signer).Claims(c).Serialize()
	if err != nil {
		w.t.Fatal(err)
	}
	w.tokens[name] = raw
	return raw
}

// Answer is what came back.
type Answer struct {
	t      testing.TB
	Status int
	Header http.Header
	Body   string
}

// Message is the one message of an error body.
func (a Answer) Message() string {
	var body struct {
		Errors []string `json:"errors"`
	}
	_ = json.Unmarshal([]byte(a.Body), &body)
	return strings.Join(body.Errors, "|")
}

// Into decodes the body.
func (a Answer) Into(v any) {
	a.t.Helper()
	if err := json.Unmarshal([]byte(a.Body), v); err != nil {
		a.t.Fatalf("%v in %s", err, a.Body)
	}
}

// Call sends a request to version 1 or 2 and checks the answer against the
// description. Headers are pairs.
func (w *World) Call(version int, bearer, method, path, body string, headers ...string) Answer {
	w.t.Helper()
	a, err := w.Try(w.t.Context(), version, bearer, method, path, body, headers...)
	if err != nil {
		w.t.Error(err)
	}
	return a
}

// Try is Call for fuzz tests, which are not the test of the World: it returns what is not as described.
func (w *World) Try(ctx context.Context, version int, bearer, method, path, body string,
	headers ...string) (Answer, error) {
	r := httptest.NewRequestWithContext(ctx, method, path, strings.NewReader(body))
	if bearer != "" {
		r.Header.Set("Authorization", "Bearer "+bearer)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	recorder := httptest.NewRecorder()
	w.handlers[version].ServeHTTP(recorder, r)
	a := Answer{w.t, recorder.Code, recorder.Result().Header, recorder.Body.String()}
	return a, judge(version, r, a)
}

// Expect is Call with what must come back; an empty message is not compared.
func (w *World) Expect(version int, bearer, method, path, body string, status int, message string) Answer {
	w.t.Helper()
	a := w.Call(version, bearer, method, path, body)
	if a.Status != status || message != "" && a.Message() != message {
		w.t.Errorf("%s %s %s: %d %s\nwant %d %s", method, path, body, a.Status, a.Body, status, message)
	}
	return a
}

var described = sync.OnceValues(func() (map[int]*openapitest.Document, error) {
	all := map[int]*openapitest.Document{}
	for version, text := range map[int][]byte{1: httpext.DescriptionV1(), 2: httpext.DescriptionV2()} {
		d, err := openapitest.Parse(text, nil)
		if err != nil {
			return nil, err
		}
		all[version] = d
	}
	return all, nil
})

// judge compares an answer with the description. What no path matches is not
// described, and must be 404 or 405.
func judge(version int, r *http.Request, a Answer) error {
	all, err := described()
	if err != nil {
		return err
	}
	operation := all[version].Find(r.Method, r.URL.Path)
	if operation == nil {
		if a.Status != http.StatusNotFound && a.Status != http.StatusMethodNotAllowed {
			return fmt.Errorf("%s %s is not described and answers %d", r.Method, r.URL.Path, a.Status)
		}
		return nil
	}
	body := []byte(a.Body)
	if kind := a.Header.Get("Content-Type"); strings.HasPrefix(kind, "text/html") || strings.Contains(kind, "yaml") ||
		strings.Contains(kind, "rfc822") || strings.Contains(kind, "csv") || strings.Contains(kind, "ndjson") {
		body = nil
	}
	if err := operation.Check(a.Status, a.Header, body); err != nil {
		return fmt.Errorf("%s %s does not answer as described: %w\n%s", r.Method, r.URL.Path, err, a.Body)
	}
	return nil
}
