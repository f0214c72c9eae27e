package system

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"ingot/internal/base/web"
	"ingot/internal/notify/httpext"
)

// TestHeadAnswersLikeGet walks every GET route of every listener: HEAD gives
// its status and kind of content, and no body. A trailing slash is ignored but by
// the notification service.
func TestHeadAnswersLikeGet(t *testing.T) {
	t.Parallel()
	s := startSystem(t, testConfig(t))
	b := s.built.Load()
	live := b.front.Live.Load()
	e := s.Endpoints()
	token := adminToken(t, s)

	for name, one := range map[string]struct {
		mux        *web.Mux
		base, host string
		version    string
	}{
		"origin":           {live.Origin, e.API, "", ""},
		"auth":             {live.Auth, e.API, "uaa." + e.Domain, ""},
		"logs":             {live.Logs, e.API, "log-cache." + e.Domain, ""},
		"notifications":    {live.Notifications.(*httpext.Versions).V1, e.Notifications, "", "1"},
		"notifications v2": {live.Notifications.(*httpext.Versions).V2, e.Notifications, "", "2"},
		"admin":            {b.admin, e.Admin, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ask := func(method, path, bearer string) (int, string, string) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				req, err := http.NewRequestWithContext(ctx, method, one.base+path, nil)
				if err != nil {
					t.Fatal(err)
				}
				req.Host = one.host
				if one.version != "" {
					req.Header.Set(httpext.VersionHeader, one.version)
				}
				if bearer != "" {
					req.Header.Set("Authorization", "bearer "+bearer)
				}
				client := &http.Client{
					Transport:     &http.Transport{DisableKeepAlives: true},
					CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
				}
				res, err := client.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				defer res.Body.Close()
				if method == http.MethodGet && strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
					return res.StatusCode, res.Header.Get("Content-Type"), "" // has no end
				}
				body, err := io.ReadAll(res.Body)
				if err != nil {
					t.Fatalf("%s %s: %v", method, path, err)
				}
				return res.StatusCode, res.Header.Get("Content-Type"), string(body)
			}
			walked := 0
			for _, route := range one.mux.Routes() {
				if route.Method != http.MethodGet {
					continue
				}
				walked++
				path := variable.ReplaceAllString(route.Pattern, "x")
				getPath := path
				if strings.HasSuffix(path, "/profile") || strings.HasSuffix(path, "/trace") {
					getPath += "?seconds=1" // HEAD does not take a profile at all
				}
				for _, bearer := range []string{"", token} {
					status, kind, body := ask(http.MethodGet, getPath, bearer)
					headStatus, headKind, headBody := ask(http.MethodHead, path, bearer)
					if headStatus != status || headKind != kind || headBody != "" {
						t.Errorf("HEAD %s: %d %q %q, GET gives %d %q", path, headStatus, headKind, headBody, status, kind)
					}
					if path == "/" || one.version != "" || strings.HasSuffix(getPath, "seconds=1") {
						continue
					}
					slash, _, slashBody := ask(http.MethodGet, strings.TrimRight(path, "/")+"/", bearer)
					if slash != status {
						t.Errorf("GET %s/: %d, without the slash %d: %s %s", path, slash, status, slashBody, body)
					}
				}
			}
			if walked == 0 {
				t.Error("no route was walked")
			}
		})
	}
}
