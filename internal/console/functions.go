package console

import (
	"encoding/json"
	"fmt"
	"html/template"
	"strconv"
	"strings"
	"time"

	"ingot/internal/base/look"
)

// functions are those of the templates.
func (p *pages) functions() template.FuncMap {
	return template.FuncMap{
		"asset":    p.link,
		"chunks":   chunks,
		"facts":    sidecar.facts,
		"sentence": sentence,
		"bytes":    humanBytes,
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
		"lower": strings.ToLower,
		"add":   func(a, b int) int { return a + b },
		"to":    send.to,
		"problems": func(part string, all map[string][]templateProblem) partProblems {
			return partProblems{part, all[part]}
		},

		"email": authUser.email, "lastLogin": authUser.login, "ready": binding.ready, "health": (*operation).health, "bindable": (*serviceData).bindable,
		"bullets": servicePlan.bullets, "details": fullEvent.details, "eventLink": fullEvent.link, "clientLink": oauthClient.link, "pageLink": pager.link,
	}
}

func humanBytes(n int64) string {
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
