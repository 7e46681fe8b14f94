/* Messages with nothing but defaults; see config.h. */
#include "model/config.h"

/* protobuf-c writes float defaults as double constants */
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wfloat-conversion"

#define X(Camel, UPPER)                                                                                               \
  const ObjectDetection__Protos__##Camel *od_set_##Camel(const ObjectDetection__Protos__##Camel *m) {                 \
    static const ObjectDetection__Protos__##Camel defaults = OBJECT_DETECTION__PROTOS__##UPPER##__INIT;               \
    return m ? m : &defaults;                                                                                         \
  }
OD_DEFAULTED_LIST(X)
#undef X
