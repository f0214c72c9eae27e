package main

import (
	"encoding/json"
	"net/url"
	"strings"
)

// attribute is a resource attribute with a text value.
type attribute struct{ key, value string }

// vcapApplication is what the relay needs of VCAP_APPLICATION.
type vcapApplication struct {
	AppID     string `json:"application_id"`
	AppName   string `json:"application_name"`
	SpaceID   string `json:"space_id"`
	SpaceName string `json:"space_name"`
	OrgID     string `json:"organization_id"`
	OrgName   string `json:"organization_name"`
	ProcessID string `json:"process_id"`
	Process   string `json:"process_type"`
}

// attributesOf returns the attributes of this instance, with the names of
// OpenTelemetry's semantic conventions. OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES
// come first.
func attributesOf(getenv func(string) string) ([]attribute, error) {
	var app vcapApplication
	if text := getenv("VCAP_APPLICATION"); text != "" {
		if err := json.Unmarshal([]byte(text), &app); err != nil {
			return nil, err
		}
	}
	var all []attribute
	seen := map[string]bool{}
	add := func(key, value string) {
		if value != "" && !seen[key] {
			seen[key] = true
			all = append(all, attribute{key, value})
		}
	}
	add("service.name", getenv("OTEL_SERVICE_NAME"))
	for key, value := range pairs(getenv("OTEL_RESOURCE_ATTRIBUTES")) {
		add(key, value)
	}
	add("service.name", app.AppName)
	add("service.instance.id", getenv("CF_INSTANCE_GUID"))
	add("cloudfoundry.app.id", app.AppID)
	add("cloudfoundry.app.name", app.AppName)
	add("cloudfoundry.app.instance.id", getenv("CF_INSTANCE_INDEX"))
	add("cloudfoundry.process.id", app.ProcessID)
	add("cloudfoundry.process.type", app.Process)
	add("cloudfoundry.space.id", app.SpaceID)
	add("cloudfoundry.space.name", app.SpaceName)
	add("cloudfoundry.org.id", app.OrgID)
	add("cloudfoundry.org.name", app.OrgName)
	return all, nil
}

// pairs iterates over a list a=b,c=d with percent-encoded values, the form of
// OpenTelemetry's variables.
func pairs(list string) func(yield func(key, value string) bool) {
	return func(yield func(key, value string) bool) {
		for part := range strings.SplitSeq(list, ",") {
			key, value, ok := strings.Cut(part, "=")
			key, value = strings.TrimSpace(key), strings.TrimSpace(value)
			if decoded, err := url.PathUnescape(value); err == nil {
				value = decoded
			}
			if ok && key != "" && !yield(key, value) {
				return
			}
		}
	}
}

// adds reports whether the relay adds an attribute to a resource that has others. What
// the app says stays, except the name that an SDK makes up when none is set.
func adds(a attribute, has map[string]string) bool {
	old, ok := has[a.key]
	return !ok || madeUp(a.key, old)
}

// madeUp reports whether an attribute is an SDK's default for the service's name.
func madeUp(key, value string) bool {
	return key == "service.name" && (value == "" || strings.HasPrefix(value, "unknown_service"))
}
