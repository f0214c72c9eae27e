package router

import (
	"net/http"
	"strings"
)

// The cookies of sticky sessions: once an app sets the first, its clients return to the
// same instance, which the second names.
const (
	sessionCookie  = "JSESSIONID"
	instanceCookie = "__VCAP_ID__"
)

// stickyInstance returns the instance that the cookies of a request name, if they belong to
// a session.
func stickyInstance(cookies []string) string {
	var session bool
	var instance string
	for _, line := range cookies {
		for part := range strings.SplitSeq(line, ";") {
			name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
			switch {
			case isSessionCookie(name):
				session = true
			case name == instanceCookie:
				instance = strings.Trim(value, `"`)
			}
		}
	}
	if !session {
		return ""
	}
	return instance
}

// stickyCookies returns the Set-Cookie values for a response that starts a session or moves
// it to another instance. Their path is that of the route, so that routes of one host have
// separate sessions; lifetime and attributes are those of the session cookie. A response
// may set a session twice (one partitioned, one not) and gets a cookie for each.
func stickyCookies(answer []string, asked, instance, path string) []string {
	var sessions []string
	for _, line := range answer {
		pair, _, _ := strings.Cut(line, ";")
		name, _, _ := strings.Cut(pair, "=")
		switch name = strings.TrimSpace(name); {
		case name == instanceCookie:
			return nil // the app sets the instance itself
		case isSessionCookie(name):
			sessions = append(sessions, line)
		}
	}
	if instance == "" {
		return nil
	}
	cookie := http.Cookie{Name: instanceCookie, //nolint:gosec // it is as secure as the session's own, which follows
		Value: instance, Path: path, HttpOnly: true}
	if len(sessions) == 0 {
		if asked == "" || asked == instance {
			return nil
		}
		return []string{cookie.String()}
	}
	out := make([]string, len(sessions))
	for i, line := range sessions {
		one := cookie //nolint:gosec // see above
		if session, err := http.ParseSetCookie(line); err == nil {
			one.Secure, one.SameSite, one.Partitioned = session.Secure, session.SameSite, session.Partitioned
			one.MaxAge, one.Expires = session.MaxAge, session.Expires
		}
		out[i] = one.String()
	}
	return out
}

// isSessionCookie reports whether a cookie starts a session, with or without a cookie name
// prefix.
func isSessionCookie(name string) bool {
	return strings.TrimPrefix(name, "__Host-") == sessionCookie
}

// cookiePath returns the path of the cookies of a route.
func cookiePath(route Route) string {
	if path := strings.TrimRight(route.Path, "/"); path != "" {
		return "/" + strings.TrimLeft(path, "/")
	}
	return "/"
}
