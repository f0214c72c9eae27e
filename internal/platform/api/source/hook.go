package source

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/base/limit"
	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
	"ingot/internal/platform/storage/gitpack"
)

// hookRate limits the webhooks of a source: those with a right signature, and those with a wrong one.
var hookRate = limit.Rate{Burst: 30, PerSecond: 0.5}

// maxHookRates limits the sources whose rates are remembered.
const maxHookRates = 10_000

// hookBodies limits the bodies that are read at the same time, of all sources and of one: a body that comes slowly is
// held until it is complete, and whose it is is known only then.
const (
	hookBodies       = 32
	hookBodiesOfEach = 2
)

// hookRates are the rates of sources.
type hookRates struct {
	mu      sync.Mutex
	used    map[string]*limit.Bucket
	reading map[string]int // bodies, by source
	all     int
}

// read reads a body, unless too many are being read.
func (h *hookRates) read(guid string, body io.Reader) ([]byte, error) {
	h.mu.Lock()
	if h.all >= hookBodies || h.reading[guid] >= hookBodiesOfEach {
		h.mu.Unlock()
		e := fault.New(fault.RateLimited, "There are too many webhooks at the same time: try again later")
		e.RetryAfter = hookPause
		return nil, e
	}
	if h.reading == nil {
		h.reading = map[string]int{}
	}
	h.all, h.reading[guid] = h.all+1, h.reading[guid]+1
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.all--
		if h.reading[guid]--; h.reading[guid] == 0 {
			delete(h.reading, guid)
		}
	}()
	return io.ReadAll(body)
}

// hookPause is when a webhook that was not read may be sent again.
const hookPause = 10 * time.Second

// take uses an attempt. Wrong signatures are counted apart, so that a stranger cannot use up those of the git server.
func (h *hookRates) take(guid string, valid bool, now time.Time) error {
	if !valid {
		guid += "!"
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.used == nil || len(h.used) >= maxHookRates {
		h.used = map[string]*limit.Bucket{}
	}
	b := h.used[guid]
	if b == nil {
		b = &limit.Bucket{}
		h.used[guid] = b
	}
	if !hookRate.Take(b, now) {
		e := fault.New(fault.RateLimited, "There are too many webhooks for this app: try again later")
		e.RetryAfter = hookRate.Wait(b, now)
		return e
	}
	return nil
}

// push is what is used of the body of a webhook, the same in all forms.
type push struct {
	Ref   string `json:"ref"`
	After string `json:"after"`
}

// hook is POST /v3/ingot/git-hooks/GUID: a git server reports a push. An unknown source and a wrong signature have the
// same answer.
func (a *API) hook(w http.ResponseWriter, r *http.Request) error {
	var src *platform.GitSource
	guid := web.Param(r, "guid")
	err := a.Store.View(r.Context(), func(tx platform.Tx) (err error) {
		src, err = tx.GitSources().Get(guid)
		return err
	})
	if err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	unsigned := fault.New(fault.Forbidden, "The webhook is not signed with the secret of an app's git source")
	if err != nil || src.Secret == "" {
		return unsigned // without its body being read
	}
	body, err := a.hooks.read(guid, r.Body)
	if err != nil {
		return err
	}
	valid := signed(r.Header, body, src.Secret)
	if err := a.hooks.take(guid, valid, a.Platform.Now()); err != nil {
		return err
	}
	if !valid {
		return unsigned
	}
	state, err := a.pushed(r, src, body)
	if err != nil {
		return err
	}
	return web.Answer(w, http.StatusOK, map[string]string{"state": state}, nil)
}

// signed reports whether the secret signs a webhook, in the forms of GitHub, Gitea and GitLab. All signatures that it
// has must be right. GitLab sends the secret itself.
func signed(h http.Header, body []byte, secret string) bool {
	if secret == "" {
		return false
	}
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	sum := mac.Sum(nil)
	found := false
	for header, prefix := range map[string]string{"X-Hub-Signature-256": "sha256=", "X-Gitea-Signature": ""} {
		for _, text := range h.Values(header) {
			digits, ok := strings.CutPrefix(text, prefix)
			got, err := hex.DecodeString(digits)
			if !ok || err != nil || !hmac.Equal(got, sum) {
				return false
			}
			found = true
		}
	}
	for _, text := range h.Values("X-Gitlab-Token") {
		if subtle.ConstantTimeCompare([]byte(text), []byte(secret)) != 1 {
			return false
		}
		found = true
	}
	return found
}

// event returns the kind of a webhook and its id.
func event(h http.Header) (kind, delivery string) {
	for _, system := range []string{"Github", "Gitea"} {
		if kind = h.Get("X-" + system + "-Event"); kind != "" {
			return kind, h.Get("X-" + system + "-Delivery")
		}
	}
	kind, delivery = h.Get("X-Gitlab-Event"), h.Get("X-Gitlab-Event-Uuid")
	if kind == "Push Hook" || kind == "Tag Push Hook" {
		kind = "push"
	}
	return kind, delivery
}

// maxDelivery limits the id of a webhook.
const maxDelivery = 100

// pushed begins a deployment if the branch of the source has a new commit, and returns what was done.
func (a *API) pushed(r *http.Request, src *platform.GitSource, body []byte) (state string, err error) {
	kind, delivery := event(r.Header)
	if kind != "push" {
		return "ignored: not a push", nil // a ping, for example
	}
	var p push
	if err := json.Unmarshal(body, &p); err != nil {
		return "", fault.Wrap(err, fault.MessageParse, "The webhook is not JSON: set its content type to application/json")
	}
	if !concerns(src, p) {
		return "ignored: another branch", nil
	}
	if len(delivery) > maxDelivery {
		delivery = delivery[:maxDelivery]
	}
	err = a.Store.Update(r.Context(), func(tx platform.Tx) error {
		state = "ignored: deployed already"
		fresh, err := tx.GitSources().Get(src.GUID)
		if err != nil {
			return err
		}
		app, err := tx.Apps().Get(fresh.AppGUID)
		if err != nil {
			return err
		}
		isNew, err := a.Platform.GitPushed(tx, app, fresh, delivery, p.After)
		if err != nil || !isNew {
			return err
		}
		state = "accepted"
		_, err = a.Services.Pull(tx, actions.GitOwner(fresh), app)
		return err
	})
	if err != nil {
		return "", err
	}
	a.Services.Kick()
	return state, nil
}

// concerns reports whether a push may change what the source deploys. Without a branch it is the default one, which a
// push does not name: then each branch may be it, and the commit decides.
func concerns(src *platform.GitSource, p push) bool {
	if commit, ok := gitpack.ParseHash(p.After); !ok || commit.IsZero() {
		return false // deleted
	}
	if src.Branch == "" {
		return strings.HasPrefix(p.Ref, "refs/heads/")
	}
	return p.Ref == "refs/heads/"+src.Branch || p.Ref == "refs/tags/"+src.Branch
}
