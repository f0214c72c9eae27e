// Package schema checks JSON with a JSON Schema that a tenant or a service broker wrote. A schema
// cannot make the server read files or URLs.
//
// Imports: github.com/santhosh-tekuri/jsonschema/v6,
// golang.org/x/text/language, golang.org/x/text/message.
package schema
