package provider

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"ingot/internal/notify"
	"ingot/internal/notify/outbound"
)

var errWanted = errors.New("not a value")

// wanted returns the values that a rule allows.
func wanted(r *notify.JSONRule) ([]any, error) {
	d := json.NewDecoder(bytes.NewReader(r.Equals))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	for _, one := range list {
		switch one.(type) {
		case []any, map[string]any:
			return nil, errWanted
		}
	}
	if len(list) == 0 || len(list) > maxRules {
		return nil, errWanted
	}
	return list, nil
}

// answer is what a provider said. Its body is read as JSON when a rule asks for it.
type answer struct {
	outbound.Answer
	body  []byte
	read  bool
	value any
	valid bool
}

func (a *answer) json() (any, bool) {
	if !a.read {
		a.read = true
		d := json.NewDecoder(bytes.NewReader(a.body))
		d.UseNumber()
		a.valid = d.Decode(&a.value) == nil
	}
	return a.value, a.valid
}

// fits reports whether an answer is as a rule says.
func (a *answer) fits(r notify.AnswerRule) bool {
	if len(r.Status) > 0 && !slices.ContainsFunc(r.Status, func(s notify.StatusRange) bool { return s.Has(a.Status) }) {
		return false
	}
	if r.JSON == nil {
		return true
	}
	v, ok := a.json()
	if !ok {
		return false
	}
	for step := range strings.SplitSeq(r.JSON.Path, ".") {
		if v, ok = within(v, step); !ok {
			return false
		}
	}
	list, _ := wanted(r.JSON)
	return slices.ContainsFunc(list, func(want any) bool { return same(v, want) })
}

// within returns a field of an object, or an element of a list.
func within(v any, step string) (any, bool) {
	switch v := v.(type) {
	case map[string]any:
		field, ok := v[step]
		return field, ok
	case []any:
		if i, err := strconv.Atoi(step); err == nil && i >= 0 && i < len(v) {
			return v[i], true
		}
	}
	return nil, false
}

// same compares values; numbers by what they are, not by how they are written.
func same(a, b any) bool {
	x, number := a.(json.Number)
	y, other := b.(json.Number)
	if number && other {
		m, err := x.Float64()
		n, err2 := y.Float64()
		return err == nil && err2 == nil && m == n
	}
	switch a.(type) {
	case nil, bool, string:
		return a == b
	}
	return false
}

// lost reports whether an answer says that a device no longer exists. Some services say so with a status of success.
func (c *Compiled) lost(a *answer) bool {
	return slices.ContainsFunc(c.gone, func(rule notify.AnswerRule) bool { return a.fits(rule) })
}

// judge returns what an answer means for a message. Temporary includes what is wrong with the provider and not with the
// message, such as wrong credentials: another one may accept it. The reason is without the secrets and
// what is private.
func (c *Compiled) judge(a *answer, private ...string) notify.Result {
	gone := c.lost(a)
	if !gone && a.fits(c.success) {
		return notify.Result{Verdict: notify.Accepted}
	}
	r := notify.Result{Verdict: notify.Permanent, Reason: a.String(), RetryAfter: a.RetryAfter}
	if said := c.hiding(private...).line(string(a.body), maxSaid); said != "" {
		r.Reason += ": " + said
	}
	is := func(rule notify.AnswerRule) bool { return a.fits(rule) }
	switch {
	case gone:
	case slices.ContainsFunc(c.permanent, is):
	case slices.ContainsFunc(c.temporary, is):
		r.Verdict = notify.Temporary
	case a.OK():
		// It may have been accepted: to try again could deliver it twice.
		r.Reason += ` (the answer is not one that "success" describes)`
	case a.Status >= 300 && a.Status <= 399:
		r.Verdict = notify.Temporary
		r.Reason += " (redirects are not followed: set the address that it leads to)"
	default:
		if slices.Contains(providersFault, a.Status) || a.Status >= 500 || a.Status < 200 {
			r.Verdict = notify.Temporary
		}
	}
	if r.Verdict == notify.Permanent {
		r.RetryAfter = 0
	}
	return r
}

// providersFault are the statuses of answers that say nothing about the message.
var providersFault = []int{http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden,
	http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusProxyAuthRequired, http.StatusRequestTimeout,
	http.StatusTooEarly, http.StatusTooManyRequests}
