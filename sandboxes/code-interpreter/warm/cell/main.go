// SPDX-License-Identifier: Apache-2.0

// Command cell imports what every cell of Go has without asking, so that the image has it built as
// plugins need it.
package main

import (
	_ "bufio"
	_ "bytes"
	_ "cmp"
	_ "context"
	_ "encoding/base64"
	_ "encoding/json"
	_ "errors"
	_ "fmt"
	_ "io"
	_ "log"
	_ "maps"
	_ "math"
	_ "math/rand"
	_ "net/http"
	_ "os"
	_ "os/exec"
	_ "path/filepath"
	_ "reflect"
	_ "regexp"
	_ "runtime"
	_ "slices"
	_ "sort"
	_ "strconv"
	_ "strings"
	_ "sync"
	_ "sync/atomic"
	_ "time"
	_ "unicode"
	_ "unsafe"
)

func main() {}
