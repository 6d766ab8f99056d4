/* The C API of weft, for C and every language that can call C: the whole of weft.
 *
 * weft/c/base.h says what holds for all functions: codes and errors, timeouts, handles and their
 * order, structs that grow, forks, threads. */
#ifndef WEFT_H
#define WEFT_H

#include "weft/c/base.h"
#include "weft/c/collective.h"
#include "weft/c/device.h"
#include "weft/c/message.h"
#include "weft/c/optimizer.h"
#include "weft/c/parameter_server.h"
#include "weft/c/publication.h"
#include "weft/c/published_slot.h"
#include "weft/c/rendezvous.h"
#include "weft/c/signal.h"
#include "weft/c/slot.h"
#include "weft/c/tensor.h"
#include "weft/c/tracing.h"
#include "weft/c/world.h"

#endif /* WEFT_H */
