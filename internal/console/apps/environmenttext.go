package apps

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/console/page"
)

// textOf returns variables as lines NAME=VALUE. A value that a line cannot hold as it is is a JSON string.
func textOf(variables []page.Variable) string {
	var b strings.Builder
	for _, v := range variables {
		value := v.Value
		if value != strings.TrimSpace(value) || strings.ContainsAny(value, "\r\n") || strings.HasPrefix(value, `"`) {
			quoted, err := json.Marshal(value)
			if err != nil { // never, for a string
				continue
			}
			value = string(quoted)
		}
		b.WriteString(v.Name + "=" + value + "\n")
	}
	return b.String()
}

// parseText returns the variables in lines NAME=VALUE. Empty lines and those that begin with # are left out. An error
// names the line.
func parseText(text string) ([]page.Variable, error) {
	var out []page.Variable
	seen := map[string]int{}
	for i, line := range strings.Split(text, "\n") {
		n := i + 1
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		switch {
		case !ok:
			return nil, fault.New(fault.Unprocessable, "Line %d has no \"=\": write NAME=VALUE.", n)
		case name == "":
			return nil, fault.New(fault.Unprocessable, "Line %d has no name before the \"=\": write NAME=VALUE.", n)
		case strings.ContainsAny(name, " \t"):
			return nil, fault.New(fault.Unprocessable, "Line %d: the name %.50q has a space in it.", n, name)
		case seen[name] > 0:
			return nil, fault.New(fault.Unprocessable, "Line %d sets %.50s again, after line %d.", n, name, seen[name])
		}
		seen[name] = n
		if strings.HasPrefix(value, `"`) {
			quoted := value
			if json.Unmarshal([]byte(quoted), &value) != nil {
				return nil, fault.New(fault.Unprocessable, "Line %d: a value that begins with a quote must be a JSON string, "+
					"such as \"a\\nb\".", n)
			}
		}
		out = append(out, page.Variable{Name: name, Value: value})
	}
	return out, nil
}

// setText is POST /console/apps/GUID/environment/text: the field text has all variables, and the fields had the names
// of those that the page showed. Of these, what is missing in the text is removed; others may have set more since.
func (c *pages) setText(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	guid := web.Param(r, "guid")
	variables, err := parseText(r.PostForm.Get("text"))
	if err == nil {
		changed := map[string]any{}
		for _, name := range r.PostForm["had"] {
			changed[name] = nil
		}
		for _, v := range variables {
			changed[v.Name] = v.Value
		}
		err = c.Platform(r, s).Do(http.MethodPatch, "/v3/apps/"+url.PathEscape(guid)+"/environment_variables",
			map[string]any{"var": changed}, nil)
	}
	if err == nil {
		return backTo(w, r, guid, "environment", "environment")
	}
	status, text, ok := page.ProblemOf(err)
	if !ok {
		return err
	}
	return showTab(c.Console, w, r, s, "environment", loadEnvironment, status, text)
}
