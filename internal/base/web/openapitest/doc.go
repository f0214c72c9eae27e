// Package openapitest compares HTTP responses with an OpenAPI 3.1 description, for
// tests of APIs. The schemas of OpenAPI 3.1 are JSON Schema.
//
// Whether a description is valid itself is checked by the end-to-end tests, with
// another implementation.
//
// Imports: github.com/santhosh-tekuri/jsonschema/v6, go.yaml.in/yaml/v2.
package openapitest
