package local

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"ingot/internal/base/pattern"
	"ingot/internal/platform/instance/initproto"
)

// Words are the values of the placeholders in a Spec.
type Words struct {
	Home string
	// Files is where {{home}}/… leads to, if that is not below Home: an instance of an image
	// has the platform's files elsewhere than its user's home directory.
	Files string
	IP    string
	Host  string
	Port  func(int) int
}

// word matches placeholders, and the escape of text that looks like one.
var word = pattern.OnUse(`\{\{(?:\{\{|home\}\}/?|ip\}\}|host\}\}|port:([0-9]{1,5})\}\})`)

// Substitute returns the spec with placeholders replaced in the arguments, environment and
// directory of every member and in the paths of TLS, and with the ports of its checks and
// of TLS mapped. s itself is not changed.
func Substitute(s initproto.Spec, w Words) initproto.Spec {
	s.Members = slices.Clone(s.Members)
	for i, m := range s.Members {
		m.Args = w.All(m.Args)
		m.Env = w.All(m.Env)
		m.Dir = w.In(m.Dir)
		for _, own := range []**initproto.Check{&m.Health, &m.Readiness} {
			if *own != nil {
				mapped := mapPorts(**own, w.Port)
				*own = &mapped
			}
		}
		s.Members[i] = m
	}
	s.Health = mapPorts(s.Health, w.Port)
	s.Readiness = mapPorts(s.Readiness, w.Port)
	if s.TLS != nil {
		s.TLS = &initproto.TLS{Port: s.TLS.Port, To: w.Port(s.TLS.To), Certificate: w.In(s.TLS.Certificate),
			Key: w.In(s.TLS.Key)}
	}
	return s
}

// All replaces placeholders in each text.
func (w Words) All(texts []string) []string {
	out := slices.Clone(texts)
	for i := range out {
		out[i] = w.In(out[i])
	}
	return out
}

// In replaces placeholders in a text. See engine.Escape for literal text.
func (w Words) In(text string) string {
	if !strings.Contains(text, "{{") {
		return text
	}
	return word().ReplaceAllStringFunc(text, func(found string) string {
		switch found {
		case "{{{{":
			return "{{"
		case "{{home}}":
			return w.Home
		case "{{home}}/":
			return strings.TrimSuffix(cmp.Or(w.Files, w.Home), "/") + "/"
		case "{{ip}}":
			return w.IP
		case "{{host}}":
			return w.Host
		}
		n, err := strconv.Atoi(word().FindStringSubmatch(found)[1])
		if err != nil {
			return found
		}
		return strconv.Itoa(w.Port(n))
	})
}

func mapPorts(c initproto.Check, port func(int) int) initproto.Check {
	c.Ports = slices.Clone(c.Ports)
	for i, n := range c.Ports {
		c.Ports[i] = port(n)
	}
	return c
}

// MentionsPort reports whether a member's arguments or environment contain {{port:N}}, so
// that it can listen on another number.
func MentionsPort(s initproto.Spec, port int) bool {
	wanted := "{{port:" + strconv.Itoa(port) + "}}"
	has := func(text string) bool { return slices.Contains(word().FindAllString(text, -1), wanted) }
	return slices.ContainsFunc(s.Members, func(m initproto.Member) bool {
		return slices.ContainsFunc(m.Args, has) || slices.ContainsFunc(m.Env, has)
	})
}
