package auth_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ingot/internal/auth"
	"ingot/internal/base/web"
)

const lockedWords = "Your account has been locked because of too many failed attempts to login."

// at is a client at its own address on this machine.
func at(t *testing.T, address string) *http.Client {
	t.Helper()
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	transport := &http.Transport{DialContext: dialer.DialContext, MaxIdleConnsPerHost: 100}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, CheckRedirect: noRedirect}
}

// login requests a token with a password, from an address.
func (f *fixture) login(client *http.Client, user, password string) *answer {
	f.t.Helper()
	form := url.Values{"grant_type": {"password"}, "username": {user}, "password": {password}}
	return f.callWith(client, http.MethodPost, "/oauth/token", form, basic("cf", ""))
}

var wrongs atomic.Int64

// wrong returns a wrong password that was not tried before: trying one again does
// not count.
func wrong() string { return fmt.Sprint("wrong ", wrongs.Add(1)) }

// wantLimited checks a 429 that says when to try again.
func (f *fixture) wantLimited(a *answer) {
	f.t.Helper()
	f.wantError(a, 429, "too_many_requests")
	if seconds, err := strconv.Atoi(a.header.Get("Retry-After")); err != nil || seconds < 1 {
		f.t.Errorf("Retry-After %q", a.header.Get("Retry-After"))
	}
}

// Wrong passwords lock an account for the address they come from, and for no
// other.
func TestLockoutIsOfAnAddress(t *testing.T) {
	t.Parallel()
	f := setup(t)
	id := f.user("bob", "right")
	attacker, owner := at(t, "127.0.0.2"), at(t, "127.0.0.3")
	for range 5 {
		f.wantError(f.login(attacker, "bob", wrong()), 401, "unauthorized")
	}
	if got := f.login(attacker, "Bob", "right").text("error_description"); got != lockedWords {
		t.Errorf("the attacker's address after five failures: %q", got)
	}
	f.want(f.login(owner, "bob", "right"), 200)
	if status := f.call(http.MethodGet, "/Users/"+id+"/status", nil, bearer(f.admin())); status.json["locked"] != true {
		t.Errorf("status %s", status.body)
	}
	f.want(f.call(http.MethodPatch, "/Users/"+id+"/status", map[string]any{"locked": false}, bearer(f.admin())), 200)
	f.want(f.login(attacker, "bob", "right"), 200)
}

// A password that was right before is accepted even if the account is locked, so
// that an attacker behind the same address cannot lock out its owner; but this
// does not allow more guesses.
func TestARightPasswordPassesALock(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.user("bob", "right")
	same := at(t, "127.0.0.2")
	f.want(f.login(same, "bob", "right"), 200)
	for range 5 {
		f.wantError(f.login(same, "bob", wrong()), 401, "unauthorized")
	}
	if got := f.login(same, "bob", wrong()).text("error_description"); got != lockedWords {
		t.Fatalf("after five failures: %q", got)
	}
	f.want(f.login(same, "bob", "right"), 200)

	guesses := 0
	for range 100 {
		a := f.login(same, "bob", fmt.Sprint("guess ", guesses))
		if a.status == 429 {
			break
		}
		f.want(a, 401)
		guesses++
		f.login(same, "bob", "right") // the owner's successes do not give the guesser more
	}
	if guesses > 20 {
		t.Errorf("%d guesses in a moment", guesses)
	}
	f.wantLimited(f.login(same, "bob", "right"))
	f.want(f.login(at(t, "127.0.0.3"), "bob", "right"), 200)
	f.clock.Advance(2 * time.Minute)
	f.want(f.login(same, "bob", "right"), 200)
}

// Guessing from many addresses is slowed down for addresses that the account
// never used; those it used stay open.
func TestBrake(t *testing.T) {
	t.Parallel()
	f := setup(t, func(o *auth.Options) { o.Limits = auth.Limits{AccountBurst: 10, AccountRate: 1.0 / 60} })
	id := f.user("bob", "right")
	home := at(t, "127.0.1.1")
	f.want(f.login(home, "bob", "right"), 200)
	for i := range 10 {
		f.wantError(f.login(at(t, fmt.Sprint("127.0.2.", i+1)), "bob", wrong()), 401, "unauthorized")
	}
	f.wantLimited(f.login(at(t, "127.0.3.1"), "bob", wrong()))
	f.wantLimited(f.login(at(t, "127.0.3.2"), "bob", "right")) // or the response would reveal the right password
	f.want(f.login(home, "bob", "right"), 200)
	if status := f.call(http.MethodGet, "/Users/"+id+"/status", nil, bearer(f.admin())); status.json["locked"] != true {
		t.Errorf("status %s", status.body)
	}
	f.clock.Advance(time.Minute)
	f.want(f.login(at(t, "127.0.3.2"), "bob", "right"), 200)
}

// A refresh token proves an address, too.
func TestRefreshProvesAnAddress(t *testing.T) {
	t.Parallel()
	f := setup(t, func(o *auth.Options) { o.Limits = auth.Limits{AccountBurst: 3} })
	f.user("bob", "right")
	laptop := at(t, "127.0.1.1")
	refresh := f.password("bob", "right").text("refresh_token")
	f.want(f.callWith(laptop, http.MethodPost, "/oauth/token", url.Values{"grant_type": {"refresh_token"},
		"refresh_token": {refresh}}, basic("cf", "")), 200)
	for i := range 3 {
		f.want(f.login(at(t, fmt.Sprint("127.0.2.", i+1)), "bob", wrong()), 401)
	}
	f.wantLimited(f.login(at(t, "127.0.1.2"), "bob", "right"))
	f.want(f.login(laptop, "bob", "right"), 200)
}

// An address has a bounded number of wrong passwords for all names together.
func TestAddressLimit(t *testing.T) {
	t.Parallel()
	f := setup(t, func(o *auth.Options) { o.Limits = auth.Limits{AddressBurst: 20} })
	f.user("bob", "right")
	flood, other := at(t, "127.0.0.2"), at(t, "127.0.0.3")
	f.want(f.login(flood, "bob", "right"), 200)
	for i := range 20 {
		f.want(f.login(flood, fmt.Sprint("name", i), "x"), 401)
	}
	f.wantLimited(f.login(flood, "one-more", "x"))
	f.wantLimited(f.login(flood, "admin", adminPassword))
	f.want(f.login(flood, "bob", "right"), 200) // bob has logged in from here before
	f.want(f.login(other, "admin", adminPassword), 200)
	f.clock.Advance(time.Second)
	f.want(f.login(flood, "admin", adminPassword), 200)
}

// Right logins are not limited, however many and however many at once.
func TestRightLoginsAreNotLimited(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.user("pipeline", "right")
	ci := at(t, "127.0.0.2")
	// The cache is empty for all of the first ones.
	var all sync.WaitGroup
	for range 40 {
		all.Go(func() {
			if a := f.login(ci, "pipeline", "right"); a.status != 200 {
				t.Errorf("login answers %d, want 200: %s", a.status, a.body)
			}
		})
	}
	all.Wait()
	for range 100 { // the clock does not advance
		f.want(f.login(ci, "pipeline", "right"), 200)
	}
}

// After a change of a password or secret the old one is rejected.
func TestChangedSecretsAreForgotten(t *testing.T) {
	t.Parallel()
	f := setup(t)
	id := f.user("bob", "first")
	f.want(f.password("bob", "first"), 200)
	f.want(f.call(http.MethodPut, "/Users/"+id+"/password", map[string]string{"password": "second"}, bearer(f.admin())),
		200)
	f.want(f.password("bob", "first"), 401)
	f.want(f.password("bob", "second"), 200)
	f.want(f.password("bob", "first"), 401)

	f.want(f.client(map[string]any{"client_id": "c", "client_secret": "first",
		"authorized_grant_types": []string{"client_credentials"}}), 201)
	ask := func(secret string) *answer {
		return f.token(url.Values{"grant_type": {"client_credentials"}}, basic("c", secret))
	}
	f.want(ask("first"), 200)
	f.want(f.call(http.MethodPut, "/oauth/clients/c/secret", map[string]string{"secret": "second"}, bearer(f.admin())),
		200)
	f.want(ask("first"), 401)
	f.want(ask("second"), 200)
	f.want(f.call(http.MethodDelete, "/oauth/clients/c", nil, bearer(f.admin())), 200)
	f.want(ask("second"), 401)
}

// Client secrets are guarded the same way.
func TestClientSecretsAreOfAnAddress(t *testing.T) {
	t.Parallel()
	f := setup(t, func(o *auth.Options) { o.Limits = auth.Limits{ClientRate: 1, ClientBurst: 30} })
	ask := func(client *http.Client, id, secret string) *answer {
		return f.callWith(client, http.MethodPost, "/oauth/token", url.Values{"grant_type": {"client_credentials"}},
			basic(id, secret))
	}
	attacker, owner := at(t, "127.0.0.2"), at(t, "127.0.0.3")
	for range 5 {
		f.wantError(ask(attacker, "admin", wrong()), 401, "invalid_client")
	}
	f.wantLimited(ask(attacker, "admin", adminSecret))
	f.want(ask(owner, "admin", adminSecret), 200)
	f.clock.Advance(time.Minute)
	f.wantError(ask(attacker, "admin", wrong()), 401, "invalid_client")
	f.clock.Advance(time.Minute) // a client's lock does not grow
	f.want(ask(attacker, "admin", adminSecret), 200)

	// Requests of a client are limited by address: all users share the client cf.
	for range 60 {
		f.login(attacker, "", "") // rejected, but counts against the client's limit
	}
	f.wantLimited(f.login(attacker, "admin", adminPassword))
	f.want(f.login(owner, "admin", adminPassword), 200)
	// Wrong secrets of cf, which has none, do not lock it either.
	for i := range 120 {
		f.callWith(at(t, fmt.Sprint("127.0.4.", i+1)), http.MethodPost, "/oauth/token",
			url.Values{"grant_type": {"password"}}, basic("cf", "wrong"))
	}
	f.want(f.login(at(t, "127.0.0.9"), "admin", adminPassword), 200)
}

// Wrong passcodes lock only the address they come from.
func TestPasscodesAreOfAnAddress(t *testing.T) {
	t.Parallel()
	f := setup(t, func(o *auth.Options) { o.Limits = auth.Limits{AddressBurst: 30} })
	token := f.want(f.password("admin", adminPassword), 200).text("access_token")
	send := func(client *http.Client, code string) *answer {
		return f.callWith(client, http.MethodPost, "/oauth/token", url.Values{"grant_type": {"password"}, "passcode": {code}},
			basic("cf", ""))
	}
	attacker, owner := at(t, "127.0.0.2"), at(t, "127.0.0.3")
	for i := range 30 {
		f.wantError(send(attacker, fmt.Sprint("bad", i)), 401, "unauthorized")
	}
	f.wantLimited(send(attacker, "bad"))
	var code string
	a := f.want(f.call(http.MethodGet, "/passcode", nil, bearer(token)), 200)
	if _, err := fmt.Sscanf(a.body, "%q", &code); err != nil {
		t.Fatal(err)
	}
	f.want(send(owner, code), 200)
}

// Behind a proxy the address is the one that the proxy names.
func TestAddressBehindAProxy(t *testing.T) {
	t.Parallel()
	proxies, err := web.ParseProxies("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	f := setup(t, func(o *auth.Options) { o.Proxies = proxies })
	f.user("bob", "right")
	for range 5 {
		f.want(f.password("bob", wrong(), header("X-Forwarded-For", "198.51.100.7")), 401)
	}
	if got := f.password("bob", "right", header("X-Forwarded-For", "203.0.113.9, 198.51.100.7")).
		text("error_description"); got != lockedWords {
		t.Errorf("a client that names another address: %q", got)
	}
	f.want(f.password("bob", "right", header("X-Forwarded-For", "198.51.100.8")), 200)
}

// During a flood of logins with random names from some addresses, correct logins
// from another address succeed, even first ones, and those of a pipeline of one
// user are never rejected.
func TestLoginFlood(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.user("pipeline", "right")
	for i := range 10 {
		f.user(fmt.Sprint("user", i), "right")
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var all sync.WaitGroup
	var refused, flooding atomic.Int64
	for i := range 80 {
		attacker := at(t, fmt.Sprint("127.0.5.", i%4+1))
		all.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				name := fmt.Sprintf("random-%d-%d", i, n)
				if n%4 == 0 {
					name = "pipeline" // the attacker knows the name
				}
				if a := f.login(attacker, name, wrong()); a.status == 429 {
					refused.Add(1)
					select { // save processor time: the flood is long enough
					case <-ctx.Done():
					case <-time.After(50 * time.Millisecond):
					}
				}
				if n == 0 {
					flooding.Add(1)
				}
			}
		})
	}
	for flooding.Load() < 80 || refused.Load() == 0 { // until the flood is at its height
		f.want(f.login(at(t, "127.0.0.2"), "pipeline", "right"), 200)
	}
	ci, desk := at(t, "127.0.0.2"), at(t, "127.0.0.3")
	for i := range 10 {
		for range 5 {
			f.want(f.login(ci, "pipeline", "right"), 200)
		}
		f.want(f.login(desk, fmt.Sprint("user", i), "right"), 200)
	}
	stop()
	all.Wait()
}

// Servers that share a store count the failures of an account from an address together, and
// each has its part of the other limits.
func TestServersCountFailuresTogether(t *testing.T) {
	t.Parallel()
	both := func(o *auth.Options) { o.Servers = func() int { return 2 } }
	one := setup(t, both)
	two := setup(t, both, func(o *auth.Options) { o.Store, o.Now = one.store, one.clock.Now })
	id := one.user("bob", "right")
	attacker := at(t, "127.0.0.2")
	for i := range 5 {
		one.wantError([]*fixture{one, two}[i%2].login(attacker, "bob", wrong()), 401, "unauthorized")
	}
	for i, f := range []*fixture{one, two} {
		if got := f.login(attacker, "bob", "right").text("error_description"); got != lockedWords {
			t.Errorf("server %d after five failures at both: %q", i+1, got)
		}
		if status := one.call(http.MethodGet, "/Users/"+id+"/status", nil,
			bearer(one.admin())); status.json["locked"] != true {
			t.Errorf("server %d: status %s, want locked", i+1, status.body)
		}
	}
	one.want(one.call(http.MethodPatch, "/Users/"+id+"/status", map[string]any{"locked": false}, bearer(one.admin())), 200)
	two.want(two.login(attacker, "bob", "right"), 200)

	// A right password resets the count everywhere, if not each time.
	one.clock.Advance(2 * time.Minute)
	for range 4 {
		one.wantError(one.login(attacker, "bob", wrong()), 401, "unauthorized")
	}
	two.want(two.login(attacker, "bob", "right"), 200)
	one.wantError(one.login(attacker, "bob", wrong()), 401, "unauthorized")
	one.want(one.login(attacker, "bob", "right"), 200)

	// Half of 100 guesses of unknown names is left to one server.
	stranger := at(t, "127.0.0.4")
	for i := range 50 {
		one.wantError(one.login(stranger, fmt.Sprint("nobody", i), "wrong"), 401, "unauthorized")
	}
	one.wantLimited(one.login(stranger, "nobody", "wrong"))
}

// A job that repeats an old password has made one guess: it neither locks the account
// for its address nor uses up the guesses of others there.
func TestARepeatedWrongPasswordIsOneGuess(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.user("bob", "right")
	f.want(f.client(map[string]any{"client_id": "c", "client_secret": "right",
		"authorized_grant_types": []string{"client_credentials"}}), 201)
	ask := func(client *http.Client, secret string) *answer {
		return f.callWith(client, http.MethodPost, "/oauth/token", url.Values{"grant_type": {"client_credentials"}},
			basic("c", secret))
	}
	office := at(t, "127.0.0.2")
	for range 200 {
		f.wantError(f.login(office, "bob", "last year's"), 401, "unauthorized")
		f.wantError(ask(office, "last year's"), 401, "invalid_client")
	}
	f.want(f.login(office, "bob", "right"), 200)
	f.want(ask(office, "right"), 200)
	for range 200 {
		f.wantError(f.login(office, "bob", "last year's"), 401, "unauthorized")
	}
	f.want(f.login(office, "bob", "right"), 200)
	// Others still count.
	for range 5 {
		f.wantError(f.login(office, "bob", wrong()), 401, "unauthorized")
	}
	if got := f.login(office, "bob", wrong()).text("error_description"); got != lockedWords {
		t.Errorf("after five different wrong passwords: %q, want locked", got)
	}
}

// A right password that comes while wrong ones are being checked waits for them.
func TestARightPasswordWaitsForWrongOnes(t *testing.T) {
	t.Parallel()
	f := setup(t, func(o *auth.Options) { o.Limits = auth.Limits{LockoutAfter: 20} })
	f.user("bob", "right")
	office := at(t, "127.0.0.2")
	var all sync.WaitGroup
	for i := range 30 {
		password := "right"
		if i%2 == 0 {
			password = wrong()
		}
		all.Go(func() {
			if a := f.login(office, "bob", password); a.status != 200 && (a.status != 401 || password == "right") {
				t.Errorf("login with %q answers %d: %s", password, a.status, a.body)
			}
		})
	}
	all.Wait()
}

// A lock says how long it lasts, for users and for clients, and its length can be set.
func TestLocksSayWhenTheyEnd(t *testing.T) {
	t.Parallel()
	f := setup(t, func(o *auth.Options) { o.Limits = auth.Limits{LockoutAfter: 2, LockoutFor: 10 * time.Second} })
	f.user("bob", "right")
	office := at(t, "127.0.0.2")
	for range 2 {
		f.wantError(f.login(office, "bob", wrong()), 401, "unauthorized")
	}
	f.clock.Advance(3 * time.Second)
	a := f.login(office, "bob", "right")
	if got := a.header.Get("Retry-After"); a.text("error_description") != lockedWords || got != "7" {
		t.Errorf("after two failures: Retry-After %q, want 7: %s", got, a.body)
	}
	f.clock.Advance(7 * time.Second)
	f.want(f.login(office, "bob", "right"), 200)
}
