//go:build race

package api_test

// manyApps is fewer under the race detector, which makes a store of thousands
// slow: how often it is read does not depend on it.
const manyApps = 500
