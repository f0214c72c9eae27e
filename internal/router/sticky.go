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
			switch name {
			case sessionCookie:
				session = true
			case instanceCookie:
				instance = strings.Trim(value, `"`)
			}
		}
	}
	if !session {
		return ""
	}
	return instance
}

// stickyCookie is the Set-Cookie value that goes with an answer: with a new
// session, or when a session went to another instance than it asked for. It is
// as lasting and as visible as the session's. Empty means none.
func stickyCookie(answer []string, asked, instance string) string {
	attributes, session := "", false
	for _, line := range answer {
		pair, rest, _ := strings.Cut(line, ";")
		name, _, _ := strings.Cut(pair, "=")
		switch strings.TrimSpace(name) {
		case instanceCookie:
			return "" // the app knows better
		case sessionCookie:
			attributes, session = rest, true
		}
	}
	if instance == "" || !session && (asked == "" || asked == instance) {
		return ""
	}
	cookie := http.Cookie{Name: instanceCookie, Value: instance, Path: "/", HttpOnly: true} //nolint:gosec // it is as secure as the session's own, which follows
	if parsed, err := http.ParseSetCookie(sessionCookie + "=x;" + attributes); session && err == nil {
		cookie.Secure, cookie.SameSite, cookie.Partitioned = parsed.Secure, parsed.SameSite, parsed.Partitioned
		cookie.MaxAge, cookie.Expires = parsed.MaxAge, parsed.Expires
	}
	return cookie.String()
}
