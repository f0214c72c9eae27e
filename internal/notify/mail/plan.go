package mail

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"

	"ingot/internal/base/pattern"
	"ingot/internal/notify/mail/address"
	"ingot/internal/notify/mail/pacing"
	"ingot/internal/notify/mail/smtp"
)

// Route is a mail server that an operator declared.
type Route struct {
	Name string `json:"name"`
	// URL is the mail server's, see smtp.ParseURL. It may contain a password.
	URL string `json:"url"`
	// Weight is its share of the messages; with 0 it is used when the others fail.
	Weight int `json:"weight"`
	// Domains are the receiving domains that it is for; empty means all others.
	Domains []string `json:"domains"`
}

// Plan is how an operator wants mail to be sent. The zero value has no limits and no routes.
type Plan struct {
	Routes  []Route
	Default pacing.Limit
	Domains map[string]pacing.Limit
	WarmUp  pacing.WarmUp
}

// Limits of a plan.
const (
	MaxPlan       = 1 << 20
	maxRoutes     = 16
	maxLimits     = 10_000
	maxRate       = 1_000_000
	minRate       = 0.001
	maxPermits    = 1000
	maxWarmDays   = 366
	maxWarmFirst  = 1_000_000
	maxWarmGrowth = 10
)

type planFile struct {
	Routes  []Route              `json:"routes"`
	Domains map[string]limitFile `json:"domains"`
	WarmUp  *struct {
		First  int     `json:"first"`
		Growth float64 `json:"growth"`
		Days   int     `json:"days"`
	} `json:"warm_up"`
}

type limitFile struct {
	Connections int     `json:"connections"`
	Rate        float64 `json:"rate"`
}

// ReadPlan reads a plan from a file; without a file it is the zero value. With server, there is a mail server already,
// so that the plan may have none. Its errors contain no passwords.
func ReadPlan(file string, server bool) (Plan, error) {
	if file == "" {
		return Plan{}, nil
	}
	f, err := os.Open(file)
	if err != nil {
		return Plan{}, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, MaxPlan+1))
	if err != nil {
		return Plan{}, err
	}
	plan, err := ParsePlan(text)
	switch {
	case err != nil:
		return Plan{}, fmt.Errorf("%s: %w", file, err)
	case server && len(plan.Routes) > 0:
		return Plan{}, fmt.Errorf("%s has routes, so --smtp-url must not be set: declare it as a route", file)
	}
	return plan, nil
}

// ParsePlan parses a plan in JSON. Its errors do not contain passwords.
func ParsePlan(text []byte) (Plan, error) {
	var f planFile
	if len(text) > MaxPlan {
		return Plan{}, fmt.Errorf("it has more than %d bytes", MaxPlan)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		return Plan{}, fmt.Errorf("it is not JSON as expected: %w", unquoted(err))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return Plan{}, errors.New("there is more than one JSON value")
	}
	p := Plan{Routes: f.Routes, Domains: map[string]pacing.Limit{}}
	if err := p.checkRoutes(); err != nil {
		return Plan{}, err
	}
	if len(f.Domains) > maxLimits {
		return Plan{}, fmt.Errorf("domains has %d entries and may have %d", len(f.Domains), maxLimits)
	}
	for name, l := range f.Domains {
		if l.Connections < 0 || l.Connections > maxPermits || l.Rate < 0 || l.Rate > maxRate ||
			l.Rate > 0 && l.Rate < minRate {
			return Plan{}, fmt.Errorf("domains: %q: connections must be from 0 to %d and rate 0, or from %g to %d", name,
				maxPermits, minRate, maxRate)
		}
		if name == "*" {
			p.Default = pacing.Limit(l)
			continue
		}
		domain, err := receiving(name)
		if err != nil {
			return Plan{}, fmt.Errorf("domains: %w", err)
		}
		p.Domains[domain] = pacing.Limit(l)
	}
	if w := f.WarmUp; w != nil {
		if w.First < 1 || w.First > maxWarmFirst || !(w.Growth >= 1 && w.Growth <= maxWarmGrowth) || w.Days < 1 ||
			w.Days > maxWarmDays || math.IsNaN(w.Growth) {
			return Plan{}, fmt.Errorf("warm_up: first must be from 1 to %d, growth from 1 to %d and days from 1 to %d",
				maxWarmFirst, maxWarmGrowth, maxWarmDays)
		}
		p.WarmUp = pacing.WarmUp{First: w.First, Growth: w.Growth, Days: w.Days}
	}
	return p, nil
}

// unquoted removes what an error quotes of the text, which may be a password.
func unquoted(err error) error {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return fmt.Errorf("invalid JSON at byte %d", syntax.Offset)
	case errors.As(err, &kind):
		return fmt.Errorf("%s at byte %d must not be a %s", kind.Field, kind.Offset, strings.Fields(kind.Value)[0])
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the JSON has no end")
	default:
		return err
	}
}

var routeName = pattern.OnUse(`^[a-z0-9][a-z0-9-]{0,39}$`)

func (p *Plan) checkRoutes() error {
	if len(p.Routes) > maxRoutes {
		return fmt.Errorf("routes has %d entries and may have %d", len(p.Routes), maxRoutes)
	}
	known := map[string]bool{}
	general := len(p.Routes) == 0
	for i := range p.Routes {
		r := &p.Routes[i]
		switch {
		case !routeName().MatchString(r.Name):
			return fmt.Errorf("routes: the name of number %d must be of a-z, 0-9 and hyphens, at most 40",
				i+1)
		case known[r.Name]:
			return fmt.Errorf("routes: the name %q is used more than once", r.Name)
		case r.Weight < 0 || r.Weight > 1000:
			return fmt.Errorf("routes: %s: weight must be from 0 to 1000", r.Name)
		case len(r.Domains) > maxLimits:
			return fmt.Errorf("routes: %s: domains has %d entries and may have %d", r.Name, len(r.Domains), maxLimits)
		}
		known[r.Name] = true
		if _, err := smtp.ParseURL(r.URL); err != nil {
			return fmt.Errorf("routes: %s: %w", r.Name, err)
		}
		for j, name := range r.Domains {
			domain, err := receiving(name)
			if err != nil {
				return fmt.Errorf("routes: %s: %w", r.Name, err)
			}
			r.Domains[j] = domain
		}
		general = general || len(r.Domains) == 0
	}
	if !general {
		return errors.New("routes: one must be without domains, for all others")
	}
	return nil
}

// receiving returns a receiving domain as it is compared.
func receiving(name string) (string, error) {
	parsed, err := address.Parse("a@" + name)
	if err != nil || strings.HasPrefix(name, "[") {
		return "", fmt.Errorf("%q is not a domain", name)
	}
	return address.Domain(parsed), nil
}
