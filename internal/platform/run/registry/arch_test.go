package registry_test

import "runtime"

const goarch = runtime.GOARCH
