package router

import (
	"net/http"
	"strings"
)

// The cookies of sticky sessions: an app that sets the first has its clients come
// back to the same instance, which the second names.
const (
	sessionCookie  = "JSESSIONID"
	instanceCookie = "__VCAP_ID__"
)

// stickyInstance is the instance that the cookies of a request ask for, if they
// are those of a session.
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

// stickyCookies are the Set-Cookie values that go with an answer: with a new
// session, or when a session went to another instance than it asked for. Their
// path is that of the route, so that routes of one host keep sessions apart, and
// they are as lasting and as visible as the session's. An answer may set a
// session twice (one partitioned, one not), and has a cookie for each then.
func stickyCookies(answer []string, asked, instance, path string) []string {
	var sessions []string
	for _, line := range answer {
		pair, _, _ := strings.Cut(line, ";")
		name, _, _ := strings.Cut(pair, "=")
		switch name = strings.TrimSpace(name); {
		case name == instanceCookie:
			return nil // the app knows better
		case isSessionCookie(name):
			sessions = append(sessions, line)
		}
	}
	if instance == "" {
		return nil
	}
	cookie := http.Cookie{Name: instanceCookie, Value: instance, Path: path, HttpOnly: true} //nolint:gosec // it is as secure as the session's own, which follows
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

// isSessionCookie reports whether a cookie begins a session, also one that its
// prefix binds to the host.
func isSessionCookie(name string) bool {
	return strings.TrimPrefix(name, "__Host-") == sessionCookie
}

// cookiePath is the path of the cookies of a route.
func cookiePath(route Route) string {
	if path := strings.TrimRight(route.Path, "/"); path != "" {
		return "/" + strings.TrimLeft(path, "/")
	}
	return "/"
}
