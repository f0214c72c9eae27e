package uaaclient_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"ingot/internal/base/uaaclient"
)

// uaa is an authorization server of which we see what it is asked.
type uaa struct {
	mu       sync.Mutex
	tokens   int // issued
	valid    string
	lists    int
	pageSize int
	refuse   int // status for the token endpoint
	known    map[string]string
}

var idTerm = regexp.MustCompile(`id eq ("(?:[^"\\]|\\.)*")`)

func (u *uaa) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	u.mu.Lock()
	defer u.mu.Unlock()
	answer := func(status int, v any) {
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(v)
	}
	switch r.URL.Path {
	case "/oauth/token":
		id, secret, _ := r.BasicAuth()
		if u.refuse != 0 || id != "ingot-platform" || secret != "s%26cret" ||
			r.FormValue("grant_type") != "client_credentials" {
			answer(max(u.refuse, http.StatusUnauthorized), map[string]string{"error": "unauthorized"})
			return
		}
		u.tokens++
		u.valid = "token-" + strconv.Itoa(u.tokens)
		answer(http.StatusOK, map[string]any{"access_token": u.valid, "expires_in": 600})
	case "/Users":
		u.lists++
		if r.Header.Get("Authorization") != "Bearer "+u.valid {
			answer(http.StatusUnauthorized, map[string]string{"error": "invalid_token"})
			return
		}
		all := []map[string]string{}
		for _, m := range idTerm.FindAllStringSubmatch(r.FormValue("filter"), -1) {
			var id string
			_ = json.Unmarshal([]byte(m[1]), &id)
			if name, ok := u.known[id]; ok {
				all = append(all, map[string]string{"id": id, "userName": name, "origin": "uaa"})
			}
		}
		start, _ := strconv.Atoi(r.FormValue("startIndex"))
		page := all[start-1:]
		page = page[:min(len(page), u.pageSize)]
		answer(http.StatusOK, map[string]any{"resources": page, "totalResults": len(all)})
	default:
		answer(http.StatusNotFound, nil)
	}
}

type bundle struct {
	uaa    *uaa
	client *uaaclient.Client
	now    time.Time
}

func setup(t *testing.T) *bundle {
	t.Helper()
	b := &bundle{uaa: &uaa{pageSize: 20, known: map[string]string{}}, now: time.Now()}
	server := httptest.NewServer(b.uaa)
	t.Cleanup(server.Close)
	b.client = uaaclient.New(uaaclient.Options{
		BaseURL: server.URL + "/", ClientID: "ingot-platform", Secret: "s&cret", Now: func() time.Time { return b.now },
	})
	t.Cleanup(b.client.Close)
	return b
}

func TestUsersByID(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ids := []string{`odd" or id pr or id eq "`, "none"}
	b.uaa.known[ids[0]] = "odd"
	for i := range 120 {
		id := fmt.Sprintf("id-%d", i)
		ids = append(ids, id)
		b.uaa.known[id] = "user-" + strconv.Itoa(i)
	}
	found, err := b.client.UsersByID(t.Context(), ids)
	if err != nil || len(found) != 121 {
		t.Fatalf("%d users, %v", len(found), err)
	}
	if u := found["id-7"]; u != (uaaclient.User{ID: "id-7", UserName: "user-7", Origin: "uaa"}) {
		t.Errorf("user is %+v, want user-7 of uaa", u)
	}
	if found[ids[0]].UserName != "odd" {
		t.Error("an id with quotes was not found")
	}
	if b.uaa.tokens != 1 {
		t.Errorf("%d tokens for one task", b.uaa.tokens)
	}
	if found, err := b.client.UsersByID(t.Context(), nil); err != nil || len(found) != 0 {
		t.Errorf("unknown user: got %v, %v", found, err)
	}
}

func TestTokenIsRenewed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ask := func(want int) {
		t.Helper()
		if _, err := b.client.UsersByID(t.Context(), []string{"x"}); err != nil {
			t.Fatal(err)
		}
		if b.uaa.tokens != want {
			t.Errorf("%d tokens, want %d", b.uaa.tokens, want)
		}
	}
	ask(1)
	b.now = b.now.Add(9 * time.Minute)
	ask(1)
	b.now = b.now.Add(45 * time.Second) // 15 s before its end
	ask(2)
	b.uaa.mu.Lock()
	b.uaa.valid = "revoked"
	b.uaa.mu.Unlock()
	ask(3)
}

func TestRefusal(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.uaa.refuse = http.StatusServiceUnavailable
	_, err := b.client.UsersByID(t.Context(), []string{"x"})
	var status *uaaclient.StatusError
	if !errors.As(err, &status) || status.Status != http.StatusServiceUnavailable || status.Reason != "unauthorized" {
		t.Errorf("got %v", err)
	}
	if strings.Contains(err.Error(), "s&cret") || strings.Contains(err.Error(), "s%26cret") {
		t.Errorf("the secret is shown: %v", err)
	}
}

func TestConcurrentCallersShareAToken(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			if _, err := b.client.UsersByID(context.Background(), []string{"x"}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if b.uaa.tokens != 1 {
		t.Errorf("%d tokens", b.uaa.tokens)
	}
}
