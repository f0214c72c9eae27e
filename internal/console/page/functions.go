package page

import (
	"cmp"
	"encoding/json"
	"fmt"
	"html/template"
	"strconv"
	"strings"
	"time"

	"ingot/internal/base/cfapi"
	"ingot/internal/base/look"
)

// functions returns the functions that the templates of all parts use.
func (t *Templates) functions() template.FuncMap {
	return template.FuncMap{
		"asset": t.link,
		"bytes": HumanBytes,
		"percent": func(part, whole int64) int64 {
			if whole <= 0 {
				return 0
			}
			return min(100, part*100/whole)
		},
		"cpu":   func(v float64) string { return fmt.Sprintf("%.1f%%", v*100) },
		"ms":    func(v float64) string { return fmt.Sprintf("%.1f ms", v) },
		"exact": look.Exact,
		"iso":   look.ISO,
		"clock": func(t time.Time) string { return t.UTC().Format("15:04:05.000") },
		"took":  func(d time.Duration) string { return d.Round(time.Second).String() },
		"since": func(seconds int64) string { return (time.Duration(seconds) * time.Second).String() },
		"json": func(raw json.RawMessage) string {
			if text := string(raw); text != "null" && text != "{}" {
				return text
			}
			return ""
		},
		"sentence": sentence,
		"command":  Command,
		"outcome":  outcome,
		"lower":    strings.ToLower,
		"add":      func(a, b int) int { return a + b },
		"pageLink": Pager.link,
	}
}

// HumanBytes returns a size in the unit that suits it.
func HumanBytes(n int64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	value, suffix := float64(n)/unit, "KMGT"
	for value >= unit && len(suffix) > 1 {
		value, suffix = value/unit, suffix[1:]
	}
	return strings.TrimSuffix(strconv.FormatFloat(value, 'f', 1, 64), ".0") + " " + suffix[:1] + "B"
}

// outcome says in words how a deployment ended, or how far it is.
func outcome(d *cfapi.Deployment) string {
	switch d.Status.Reason {
	case "DEPLOYED":
		return "deployed"
	case "SUPERSEDED":
		return "replaced by a newer deployment"
	case "CANCELED":
		return "canceled"
	case "CANCELING":
		return "being canceled"
	case "PAUSED":
		return "paused, waits to be continued"
	case "DEPLOYING":
		return "in progress"
	}
	return strings.ToLower(cmp.Or(d.Status.Reason, d.Status.Value))
}
