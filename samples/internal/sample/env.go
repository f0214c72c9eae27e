package sample

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"
)

// Env reads settings from environment variables. It collects everything that is
// wrong, so that a user corrects all of it at once.
type Env struct {
	// Get is os.Getenv, or a replacement for it in tests.
	Get func(name string) string

	problems []error
}

// Problem reports a setting that cannot be used.
func (e *Env) Problem(format string, args ...any) {
	e.problems = append(e.problems, fmt.Errorf(format, args...))
}

// Err returns all problems, or nil.
func (e *Env) Err() error { return errors.Join(e.problems...) }

// Text returns a variable, or a default if it is not set.
func (e *Env) Text(name, otherwise string) string {
	if v := strings.TrimSpace(e.Get(name)); v != "" {
		return v
	}
	return otherwise
}

// Need returns a variable that must be set. The hint says what to set it to.
func (e *Env) Need(name, hint string) string {
	v := e.Text(name, "")
	if v == "" {
		e.Problem("%s is not set: %s", name, hint)
	}
	return v
}

// OneOf returns a variable whose value must be one of those given; the first is
// the default.
func (e *Env) OneOf(name string, values ...string) string {
	v := e.Text(name, values[0])
	for _, allowed := range values {
		if v == allowed {
			return v
		}
	}
	e.Problem("%s is %q, and must be one of: %s", name, v, strings.Join(values, ", "))
	return values[0]
}

// Duration returns a variable such as 30s or 5m.
func (e *Env) Duration(name string, otherwise, least time.Duration) time.Duration {
	text := e.Text(name, "")
	if text == "" {
		return otherwise
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < least {
		e.Problem("%s is %q, and must be a duration such as %s, at least %s", name, text, otherwise, least)
		return otherwise
	}
	return d
}

// Int returns a variable that is a number of at least least.
func (e *Env) Int(name string, otherwise, least int) int {
	text := e.Text(name, "")
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least {
		e.Problem("%s is %q, and must be a number of at least %d", name, text, least)
		return otherwise
	}
	return n
}

// List returns the parts of a variable, separated by commas.
func (e *Env) List(name string) []string {
	var all []string
	for part := range strings.SplitSeq(e.Get(name), ",") {
		if part = strings.TrimSpace(part); part != "" {
			all = append(all, part)
		}
	}
	return all
}

// Address returns a variable of the form HOST:PORT. An empty host means all
// interfaces.
func (e *Env) Address(name, otherwise string) string {
	v := e.Text(name, otherwise)
	_, port, err := net.SplitHostPort(v)
	if n, wrong := strconv.Atoi(port); err != nil || wrong != nil || n < 0 || n > 65535 {
		e.Problem("%s is %q, and must be HOST:PORT, for example 127.0.0.1:9000", name, v)
	}
	return v
}

// LoopbackAddress is like Address, for a listener that only processes of this
// instance may reach.
func (e *Env) LoopbackAddress(name, otherwise string) string {
	v := e.Address(name, otherwise)
	host, _, err := net.SplitHostPort(v)
	if ip := net.ParseIP(host); err == nil && host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		e.Problem("%s is %q, and must be an address of localhost: other instances could use it otherwise", name, v)
	}
	return v
}
